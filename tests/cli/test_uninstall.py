"""``nri-numamem uninstall``: takes away what install put there, and what follows."""

import fcntl
from pathlib import Path

import pytest

from nri_numamem.cli import reset
from nri_numamem.cli.export import server
from nri_numamem.cli.installation import systemd
from nri_numamem.cli.main import main
from nri_numamem.config.errors import UsageError
from nri_numamem.memorymanager.claims import Claim
from nri_numamem.observe.claim_files import (
    Intent,
    directory_of,
    intents_file,
    write_intents,
)
from nri_numamem.observe.files import lock_file_of
from tests.cli.doctor.host_files import CONFIG, PLUGINS, STATE, HostFiles
from tests.kubernetes_api import KubernetesApi

ENTRY = f"{PLUGINS}/10-nri-numamem"
THEN = ", then removes configuration, state and logs"


class Stand:
    """A host with a launched plugin, and the command."""

    def __init__(self, files: HostFiles, capsys: pytest.CaptureFixture[str]) -> None:
        self.files = files
        self._capsys = capsys

    def uninstall(self, *options: str, status: int = 0) -> list[str]:
        state = f"--state-file={self.files.path(STATE)}"
        cgroups = f"--cgroup-root={self.files.path('sys/fs/cgroup')}"
        command = ["uninstall", "--root", str(self.files.root), state, cgroups, *options]
        assert main(command) == status
        shown = self._capsys.readouterr()
        return (shown.out + shown.err).splitlines()


@pytest.fixture
def stand(host_files: HostFiles, capsys: pytest.CaptureFixture[str]) -> Stand:
    return Stand(host_files, capsys)


def test_a_launched_plugin(stand: Stand) -> None:
    assert stand.uninstall("--dry-run") == [f"would remove /{ENTRY}"]
    assert stand.uninstall() == [f"removed /{ENTRY}"]
    assert stand.uninstall() == ["nothing changed"]
    assert stand.files.path(CONFIG).exists()
    assert stand.files.path(STATE).exists()


def test_purge_leaves_nothing(stand: Stand) -> None:
    stand.files.write("var/log/nri-numamem/nri-numamem.log", "")
    stand.files.write("etc/nri-numamem/config.yaml", "")
    stand.files.write("etc/systemd/system/nri-numamem.service.d/override.conf", "")
    stand.uninstall("--purge")
    assert [path for path in stand.files.root.rglob("*numamem*") if "opt" not in path.parts] == []
    assert not stand.files.path("opt/nri").exists()
    assert not stand.files.path("etc/nri").exists()
    assert stand.uninstall("--purge") == ["nothing changed"]


def test_purge_names_files_in_other_directories(stand: Stand) -> None:
    stand.files.write("data/numamem.state", "")
    stand.files.write(CONFIG, "stateFile: /data/numamem.state\n")
    kept = f"kept /data/numamem.state, and the plugin's files beside it (stateFile in /{CONFIG}); "
    kept += "remove it yourself"
    assert stand.uninstall("--purge", "--dry-run")[-1] == kept
    assert stand.uninstall("--purge")[-1] == kept
    assert stand.files.path("data/numamem.state").exists()
    assert stand.uninstall("--purge") == ["nothing changed"]


def test_what_is_not_of_the_plugin_stays(stand: Stand) -> None:
    for name in (f"{PLUGINS}/20-nri-numamem", f"{PLUGINS}/backup"):
        stand.files.write(name, "#!/bin/sh\n")
        stand.files.path(name).chmod(0o755)
    stand.files.write("etc/nri/conf.d/10-other.conf", "")
    lines = stand.uninstall("--purge", status=1)
    assert [line.partition("    ")[0] for line in lines[-3:]] == [
        "remaining:",
        f"  rename or move /{PLUGINS}/backup",
        f"  move /{PLUGINS}/20-nri-numamem away",
    ]
    assert stand.files.path(f"{PLUGINS}/backup").exists()
    assert stand.files.path("etc/nri/conf.d/10-other.conf").exists()


def test_of_a_mounted_host_whose_pods_run_the_state_stays(stand: Stand) -> None:
    stand.files.path("sys/fs/cgroup/kubepods.slice").mkdir()
    assert stand.uninstall("--purge", status=1) == [
        f"removed /{ENTRY}",
        "",
        "remaining:",
        "  nri-numamem uninstall    (on the host itself: unpins the containers)",
    ]
    assert stand.files.path(STATE).exists()
    stand.uninstall("--purge", "--no-reset")
    assert not stand.files.path(STATE).exists()


class TestOnThisHost:
    """The root directory is taken for / of this process."""

    @pytest.fixture(autouse=True)
    def _this_host(self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
        monkeypatch.setattr("nri_numamem.cli.host_files.Host.is_this_host", True)
        monkeypatch.setattr("nri_numamem.cli.host_files.Host.path", path_below)
        monkeypatch.setattr(systemd, "BOOTED", tmp_path / "none")

    def test_pins_are_removed(self, stand: Stand) -> None:
        lines = stand.uninstall()
        assert lines[0] == f"removed /{ENTRY}"
        assert lines[-1] == "  There is no pinned container."

    def test_the_object_for_the_scheduler_is_deleted(
        self, stand: Stand, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """It stays if the API server does not answer, and the uninstall goes on."""
        with KubernetesApi() as api:
            api.objects["worker-1"] = {}
            kubeconfig = api.write_kubeconfig(stand.files.root / "kubeconfig")
            options = stand.files.root / "export.env"
            options.write_text(f"EXPORT_OPTIONS=--node-name worker-1 --kubeconfig {kubeconfig}\n")
            monkeypatch.setattr(server, "OPTIONS_FILE", options)
            assert stand.uninstall("--dry-run")[1].startswith("would delete noderesourcetopology w")
            lines = stand.uninstall("--no-reset")
            assert lines[1] == "deleted noderesourcetopology worker-1 from the API server"
            assert api.objects == {}
            assert stand.uninstall("--no-reset") == ["nothing changed"]
        (line,) = stand.uninstall("--no-reset")
        assert line.endswith("; run: kubectl delete noderesourcetopologies worker-1")

    def test_without_state_and_pins_there_is_nothing_to_unpin(self, stand: Stand) -> None:
        stand.files.path(STATE).unlink()
        assert stand.uninstall()[-1] == "  There is no pinned container."

    def test_pins_stay_if_asked(self, stand: Stand) -> None:
        assert stand.uninstall("--no-reset") == [f"removed /{ENTRY}"]

    def test_a_running_plugin_ends_with_the_runtime(self, stand: Stand) -> None:
        with stand.files.path(str(lock_file_of(Path(STATE)))).open() as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            planned = stand.uninstall("--dry-run")
            lines = stand.uninstall("--purge", status=1)
        assert planned[-1].startswith("would unpin the containers when the plugin has ")
        assert lines == [
            f"removed /{ENTRY}",
            "",
            "remaining:",
            "  systemctl restart containerd    (ends the plugin: pid 7, since today, launched)",
            f"  nri-numamem uninstall --purge    (unpins the containers{THEN})",
        ]
        assert stand.files.path(STATE).exists()
        assert stand.files.path(CONFIG).exists()
        stand.uninstall("--purge")
        assert not stand.files.path(STATE).exists()

    @pytest.mark.parametrize("is_error", [True, False])
    def test_a_reset_that_fails_keeps_the_state(
        self, stand: Stand, monkeypatch: pytest.MonkeyPatch, *, is_error: bool
    ) -> None:
        def fail(_args: object) -> set[str]:
            if is_error:
                raise UsageError("/s: no such socket; start it")
            return {"failed", "done"}

        monkeypatch.setattr(reset, "reset", fail)
        lines = stand.uninstall("--purge", status=1)
        assert ("  /s: no such socket; start it" in lines) is is_error
        assert any(line.startswith("  nri-numamem uninstall --purge    (unpins") for line in lines)
        assert stand.files.path(STATE).exists()

    def test_a_directory_that_cannot_be_read(
        self, stand: Stand, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def refuse(path: Path) -> None:
            if path.name == "nri-numamem":
                raise PermissionError(13, "Permission denied")
            raise FileNotFoundError

        monkeypatch.setattr(Path, "iterdir", refuse)
        (line,) = stand.uninstall("--purge", "--no-reset", status=2)
        text = "/var/lib/nri-numamem: Permission denied; run as root; nothing was changed"
        assert line.endswith(text)
        assert stand.files.path(ENTRY).is_symlink()


def path_below(host: object, name: str) -> Path:
    """Return a path below the root; one that is there already, such as an option's, as it is."""
    root: Path = host.root  # type: ignore[attr-defined]
    return Path(name) if name.startswith(str(root)) else root / name.lstrip("/")


ON_HOST = f"--state-file=/{STATE}"
"""As the host below the root has it."""


def test_prepared_claims_stop_an_uninstall(stand: Stand) -> None:
    directory = directory_of(stand.files.path(STATE))
    claims = [
        Claim(uid, "telco", f"{uid}-numa", {"mem": {0: {"memory": 4096}}}) for uid in ("upf", "amf")
    ]
    write_intents(directory, [Intent(claim, "try-1") for claim in claims])
    file = intents_file(directory)
    file.write_text(file.read_text().replace('"claims":{', '"claims":{"odd":1,'))
    shown = " ".join(stand.uninstall(ON_HOST, status=2))
    names = "odd, telco/amf-numa, telco/upf-numa"
    assert f"resource claims are prepared on this host: {names}; delete their pods first" in shown
    assert f"they are in {file}" in shown
    write_intents(directory, [])
    assert stand.uninstall(ON_HOST) == [f"removed /{ENTRY}"]


@pytest.mark.parametrize("damage", ["a directory", "no JSON"])
def test_claims_that_cannot_be_read_stop_an_uninstall(stand: Stand, damage: str) -> None:
    file = intents_file(directory_of(stand.files.path(STATE)))
    if damage == "a directory":
        file.mkdir(parents=True)
        text = f"{file.parents[1]}: Is a directory; run as root"
    else:
        file.parent.mkdir(parents=True)
        file.write_text("{")
        text = "remove the file if no pod uses a resource claim"
    assert text in " ".join(stand.uninstall(ON_HOST, status=2))
