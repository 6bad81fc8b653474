"""``nri-numamem install`` in a root directory, and on a host whose systemd is a script."""

from pathlib import Path

import pytest

from nri_numamem.cli.host_files import Host
from nri_numamem.cli.install import writable_parts
from nri_numamem.cli.installation import hook_program, systemd
from nri_numamem.cli.main import main
from tests.cli.doctor.host_files import CONFIG, CONTAINERD, PLUGINS, SERVICE, HostFiles

PROGRAM = "opt/nri-numamem/bin/nri-numamem"
ENTRY = f"{PLUGINS}/10-nri-numamem"
UNIT = "etc/systemd/system/nri-numamem.service"
HOOK = hook_program.PATH.lstrip("/")
NRI = '[plugins."io.containerd.nri.v1.nri"]\n'


class Stand:
    """A host without the plugin, and the command."""

    def __init__(self, files: HostFiles, capsys: pytest.CaptureFixture[str]) -> None:
        self.files = files
        self._capsys = capsys
        files.write(PROGRAM, "#!/usr/bin/python3\nfrom nri_numamem.cli.main import main\n")
        files.path(PROGRAM).chmod(0o755)
        files.path(ENTRY).unlink()
        files.path(CONFIG).unlink()

    def install(self, *options: str, status: int = 0) -> list[str]:
        """Return the lines of output, or of errors, without warnings about test directories."""
        arguments = ["install", "--root", str(self.files.root), "--program", f"/{PROGRAM}"]
        assert main([*arguments, *options]) == status
        shown = self._capsys.readouterr()
        lines = (shown.out + shown.err).splitlines()
        return [line for line in lines if not line.startswith("warning: ")]

    def has(self, name: str) -> bool:
        return self.files.path(name).is_symlink() or self.files.path(name).exists()


@pytest.fixture
def stand(host_files: HostFiles, capsys: pytest.CaptureFixture[str]) -> Stand:
    return Stand(host_files, capsys)


def test_launched(stand: Stand) -> None:
    lines = [f"linked /{ENTRY} -> /{PROGRAM}", f"wrote /{CONFIG}"]
    planned = [
        line.replace("linked", "would link").replace("wrote", "would write") for line in lines
    ]
    assert stand.install("--launched", "--dry-run") == planned
    assert not stand.has(ENTRY)
    assert stand.install("--launched") == lines
    assert str(stand.files.path(ENTRY).readlink()) == f"/{PROGRAM}"
    assert stand.install("--launched") == ["nothing changed"]
    assert stand.install("--launched", "--dry-run") == ["nothing to change"]


def test_doctor_agrees(stand: Stand) -> None:
    stand.install("--launched")
    found = stand.files.findings()
    assert (found["instances"].verdict, found["plugin_directory"].verdict) == ("ok", "ok")
    stand.install("--external")
    assert stand.files.findings()["instances"].text == "started as the service nri-numamem"


def test_each_way_takes_the_other_away_and_keeps_the_configuration(stand: Stand) -> None:
    stand.files.write(CONFIG, "logLevel: debug\n")
    stand.install("--launched")
    service = "etc/nri-numamem/config.yaml"
    stand.install("--external")
    assert [stand.has(name) for name in (ENTRY, CONFIG, SERVICE, UNIT)] == [
        False,
        False,
        True,
        True,
    ]
    assert stand.files.path(service).read_text() == "logLevel: debug\n"
    assert stand.install("--external") == ["nothing changed"]
    stand.install("--launched")
    assert [stand.has(name) for name in (ENTRY, service, SERVICE, UNIT)] == [
        True,
        False,
        False,
        False,
    ]
    assert stand.files.path(CONFIG).read_text() == "logLevel: debug\n"


def test_a_wrong_name_in_the_plugin_directory_is_refused(stand: Stand) -> None:
    stand.files.write(f"{PLUGINS}/backup.sh", "")
    stand.files.path(f"{PLUGINS}/backup.sh").chmod(0o755)
    (line,) = stand.install("--launched", status=2)
    assert line.startswith(f"nri-numamem: /{PLUGINS}/backup.sh: the runtime does not start with")
    assert line.endswith("; rename it, or move it away")
    assert not stand.has(ENTRY)


@pytest.mark.parametrize("idx", ["1", "100", "1a", "\u0661\u0661"])
def test_a_wrong_index(stand: Stand, idx: str) -> None:
    (line,) = stand.install("--launched", "--idx", idx, status=2)
    assert line == f"nri-numamem: --idx {idx}: not an index; give two digits, such as 10"


def test_nri_is_switched_on_only_if_asked(stand: Stand) -> None:
    main_file = f'version = 2\nimports = ["conf.d/*.toml"]\n{NRI}disable = true\n'
    stand.files.write(CONTAINERD, main_file)
    stand.files.path("proc/net/unix").unlink()
    lines = stand.install("--launched")
    first = "  /etc/containerd/config.toml disables NRI. Run this again with --enable-nri, or "
    assert lines[2:] == [
        "",
        "remaining:",
        f"{first}change it:",
        f"    {NRI.strip()}",
        "      disable = false",
    ]
    drop_in = "etc/containerd/conf.d/99-nri-numamem.toml"
    assert not stand.has(drop_in)
    assert stand.install("--launched", "--enable-nri") == [f"wrote /{drop_in}"]
    assert stand.install("--launched", "--enable-nri") == ["nothing changed"]
    assert stand.install("--launched") == ["nothing changed"]
    assert stand.files.path(CONTAINERD).read_text() == main_file
    assert stand.files.path(drop_in).read_text().endswith(f"version = 2\n{NRI}  disable = false\n")


def test_nri_that_is_on_needs_no_file(stand: Stand) -> None:
    stand.install("--launched")
    assert stand.install("--launched", "--enable-nri") == ["nothing changed"]


def test_a_program_that_others_can_change_is_a_warning(
    stand: Stand, capsys: pytest.CaptureFixture[str]
) -> None:
    stand.files.path(PROGRAM).chmod(0o777)
    arguments = ["--root", str(stand.files.root), "--program", f"/{PROGRAM}"]
    assert main(["install", "--launched", *arguments]) == 0
    warning = f"warning: users other than root can change /{PROGRAM}, and the program runs as"
    assert warning in capsys.readouterr().out


class TestClaimHook:
    """The running program contains the hook program of resource claims."""

    @pytest.fixture(autouse=True)
    def _carried(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(hook_program, "carried", lambda: b"\x7fELF hook")

    def test_install_writes_it_and_uninstall_removes_it(
        self, stand: Stand, capsys: pytest.CaptureFixture[str]
    ) -> None:
        line = f"would write {hook_program.PATH}"
        assert stand.install("--launched", "--dry-run")[0] == line
        assert not stand.has(HOOK)
        assert stand.install("--launched")[0] == f"wrote {hook_program.PATH}"
        assert stand.files.path(HOOK).read_bytes() == b"\x7fELF hook"
        assert stand.files.path(HOOK).stat().st_mode & 0o7777 == 0o755
        assert stand.install("--launched") == ["nothing changed"]
        root = ["--root", str(stand.files.root), "--no-reset"]
        assert main(["uninstall", *root, "--dry-run"]) == 0
        assert f"would remove {hook_program.PATH}\n" in capsys.readouterr().out
        assert main(["uninstall", *root, "--purge"]) == 0
        assert not stand.has("usr/libexec/nri-numamem")

    def test_an_older_one_is_replaced_without_a_restart(self, stand: Stand) -> None:
        stand.install("--launched")
        stand.files.path(HOOK).write_bytes(b"\x7fELF older")
        assert stand.install("--launched") == [f"wrote {hook_program.PATH}"]

    def test_that_of_a_package_stays(self, stand: Stand) -> None:
        stand.files.write(systemd.PACKAGED[0].lstrip("/"), "[Unit]\n")
        stand.files.write(HOOK, "\x7fELF of the package")
        stand.install("--launched")
        assert stand.files.path(HOOK).read_bytes() == b"\x7fELF of the package"

    def test_a_read_only_system_only_lacks_it(
        self,
        stand: Stand,
        monkeypatch: pytest.MonkeyPatch,
        capsys: pytest.CaptureFixture[str],
    ) -> None:
        monkeypatch.setattr(hook_program, "is_read_only", lambda _host: True)
        assert stand.install("--launched") == [f"linked /{ENTRY} -> /{PROGRAM}", f"wrote /{CONFIG}"]
        root = ["--root", str(stand.files.root), "--program", f"/{PROGRAM}"]
        assert main(["install", "--launched", *root]) == 0
        warning = f"warning: {hook_program.PATH} is on a read-only file system; for resource claims"
        assert f"{warning} run nri-numamem install --claim-hook FILE" in capsys.readouterr().out
        assert not stand.has(HOOK)

    def test_it_alone_is_written_to_another_place(self, stand: Stand) -> None:
        place = "/opt/bin/claim-hook"
        assert stand.install("--claim-hook", place, "--dry-run") == [f"would write {place}"]
        assert stand.install("--claim-hook", place) == [f"wrote {place}"]
        assert stand.files.path(place.lstrip("/")).read_bytes() == b"\x7fELF hook"
        assert stand.install("--claim-hook", place) == ["nothing changed"]
        assert not stand.has(ENTRY)

    def test_a_python_package_has_none(self, stand: Stand, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(hook_program, "carried", lambda: None)
        (line,) = stand.install("--claim-hook", "/opt/claim-hook", status=2)
        problem = "this Python package does not contain the hook program of resource claims"
        remedy = "use the single executable file or a package"
        assert line == f"nri-numamem: --claim-hook: {problem}; {remedy}"


class TestOnThisHost:
    """The root directory is taken for / of this process."""

    @pytest.fixture(autouse=True)
    def _this_host(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("nri_numamem.cli.host_files.Host.is_this_host", True)

    @pytest.fixture
    def calls(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
        """Return the calls of systemctl; the service runs after its start."""
        made: list[str] = []

        def run(arguments: tuple[str, ...]) -> None:
            made.append(" ".join(arguments))
            is_started = "start nri-numamem.service" in made
            if arguments[0] == "is-active" and not is_started:
                raise OSError(5, "exit status 3")

        monkeypatch.setattr(systemd, "run", run)
        monkeypatch.setattr(systemd, "BOOTED", tmp_path)
        return made

    def test_launched_says_what_remains(
        self, stand: Stand, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
    ) -> None:
        monkeypatch.setattr(systemd, "BOOTED", tmp_path / "none")
        remaining = [
            "",
            "remaining:",
            "  systemctl restart containerd",
            "  nri-numamem doctor    (checks the host and the plugin)",
        ]
        assert stand.install("--launched")[2:] == remaining
        assert stand.install("--launched") == ["nothing changed", *remaining]

    def test_the_service_is_started(self, stand: Stand, calls: list[str]) -> None:
        lines = stand.install("--external")
        assert calls == [
            "is-active --quiet nri-numamem.service",
            "daemon-reload",
            "start nri-numamem.service",
        ]
        assert "ran systemctl start nri-numamem.service" in lines
        assert lines[-1].startswith("  nri-numamem doctor")
        assert "  systemctl restart containerd" not in lines
        assert stand.install("--external")[0] == "nothing changed"

    def test_without_systemd_the_start_remains(
        self, stand: Stand, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
    ) -> None:
        monkeypatch.setattr(systemd, "BOOTED", tmp_path / "none")
        lines = stand.install("--external")
        assert any(line.startswith("  systemctl start nri-numamem ") for line in lines)

    @pytest.mark.usefixtures("calls")
    def test_a_launched_plugin_runs_until_the_runtime_restarts(self, stand: Stand) -> None:
        stand.install("--launched")
        assert "  systemctl restart containerd" in stand.install("--external")

    def test_a_service_that_does_not_start_leaves_nothing(
        self, stand: Stand, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
    ) -> None:
        def run(arguments: tuple[str, ...]) -> None:
            if arguments[0] != "daemon-reload":
                raise OSError(5, "Job for nri-numamem.service failed")

        monkeypatch.setattr(systemd, "run", run)
        monkeypatch.setattr(systemd, "BOOTED", tmp_path)
        (line,) = stand.install("--external", status=2)
        expected = "Job for nri-numamem.service failed; nothing was changed"
        assert line == f"nri-numamem: systemctl start nri-numamem.service: {expected}"
        assert not stand.has(UNIT)
        assert not stand.has("etc/nri-numamem")


def test_parts_that_others_can_change(tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/p").touch()
    (tmp_path / "bin").chmod(0o777)
    host = Host(tmp_path)
    shared = set(writable_parts("/bin/p", host)) - set(writable_parts("/", host))
    assert "/bin" in shared
    (tmp_path / "bin").chmod(0o1777)
    own = (tmp_path / "bin").stat().st_uid == 0
    assert ("/bin" in writable_parts("/bin/none", host)) is not own
