"""The RPM package with the real program: installed, upgraded and erased by rpm.

The root has no rpm of its own: that of this host installs into it, and runs the scripts in it.
"""

import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import payload
import pytest

from nri_numamem.config.example import example_text
from nri_numamem.config.settings import STATE_FILE
from nri_numamem.observe.files import lock_file_of
from nri_numamem.version import VERSION
from tests.load_module import load_module
from tests.packaging import debian_root, pinned_container
from tests.packaging.debian_root import DebianRoot
from tests.packaging.single_file_program import PROGRAM, ROOT, needs_program, needs_root

pytestmark = [
    needs_program,
    needs_root,
    pytest.mark.skipif(shutil.which("rpmbuild") is None, reason="no rpmbuild"),
    pytest.mark.timeout(600),
]

NEW, OLD = "mnt/new.rpm", "mnt/old.rpm"
OLD_CONFIG = "# of 0.0.9\n"
ENTRY = "/opt/nri/plugins/10-nri-numamem"
LAUNCHED_CONFIG = "/etc/nri/conf.d/10-nri-numamem.conf"
CONFIG = "/etc/nri-numamem/config.yaml"
WANTED = "/etc/systemd/system/multi-user.target.wants/nri-numamem.service"
# Directories of other packages that the root lacks.
BEFORE = "mkdir -p /usr/lib/systemd/system /usr/share/licenses /usr/share/man/man8"


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with this release, and an older one whose configuration is another."""
    folder = tmp_path_factory.mktemp("rpm")
    build = load_module(ROOT / "packaging/rpm/build.py").build
    build(PROGRAM, folder, "1", "w0.ufdio").rename(folder / "new.rpm")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(payload, "example_text", lambda: OLD_CONFIG)
        build(PROGRAM, folder, "0", "w0.ufdio").rename(folder / "old.rpm")
    return folder


@pytest.fixture(params=[debian_root.OLDEST])
def root(request: pytest.FixtureRequest, built: Path, tmp_path: Path) -> Iterator[DebianRoot]:
    with DebianRoot(request.param, built, tmp_path) as made:
        made.shell(BEFORE)
        yield made


def attempt(root: DebianRoot, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run rpm."""
    database = ("--root", str(root.path), "--dbpath", "/var/lib/rpm")
    return root.attempt_outside("rpm", *database, *arguments)


def rpm(root: DebianRoot, *arguments: str) -> str:
    done = attempt(root, *arguments)
    assert done.returncode == 0, done.stdout
    assert "scriptlet failed" not in done.stdout
    lines = done.stdout.splitlines(keepends=True)
    # Debian's rpm recommends alien.
    return "".join(line for line in lines if not line.startswith("rpm: "))


def upgrade(root: DebianRoot, package: str) -> str:
    """Install or upgrade; the database does not have the packages of the root, such as glibc."""
    return rpm(root, "--upgrade", "--nodeps", str(root.path / package))


def install(root: DebianRoot, package: str) -> None:
    assert upgrade(root, package) == ""


def exists(root: DebianRoot, path: str) -> bool:
    return root.attempt("sh", "-c", f"[ -e {path} ] || [ -L {path} ]").returncode == 0


def test_from_install_to_erase(root: DebianRoot) -> None:
    """What nobody changed and the plugin did not write is gone afterwards."""
    before = root.files()
    install(root, NEW)
    assert root.run("nri-numamem", "--version") == f"nri-numamem {VERSION}\n"
    installed = root.files()
    assert not {line for line in installed - before if line.startswith(("/opt", "/etc/systemd"))}
    assert root.run("cat", CONFIG) == example_text()
    rpm(root, "--erase", "nri-numamem")
    assert root.files() ^ before == set()


def test_what_an_erase_keeps(root: DebianRoot) -> None:
    """`nri-numamem uninstall --purge` would have removed it."""
    before = root.files()
    install(root, NEW)
    root.run("nri-numamem", "install", "--launched")
    assert root.run("readlink", ENTRY) == "/usr/bin/nri-numamem\n"
    root.shell("""
      mkdir -m 0700 /var/lib/nri-numamem
      mkdir -m 0750 /var/log/nri-numamem
      echo text >/var/log/nri-numamem/nri-numamem.log
    """)
    assert rpm(root, "--verify", "--nodeps", "nri-numamem") == ""
    rpm(root, "--erase", "nri-numamem")
    kept = {line.split(" ")[0] for line in root.files() - before if " d " not in line}
    assert kept == {LAUNCHED_CONFIG, "/var/log/nri-numamem/nri-numamem.log"}
    assert not exists(root, "/var/lib/nri-numamem")


def test_an_erase_after_a_purge_leaves_nothing(root: DebianRoot) -> None:
    before = root.files()
    install(root, NEW)
    root.run("nri-numamem", "install", "--external")
    root.shell("mkdir -p /var/log/nri-numamem; echo text >/var/log/nri-numamem/nri-numamem.log")
    root.run("nri-numamem", "uninstall", "--purge")
    rpm(root, "--erase", "nri-numamem")
    left = {line.split(" ")[0] for line in root.files() - before}
    assert left <= {"/etc/systemd/system/multi-user.target.wants"}


def test_an_upgrade_keeps_the_installation_and_its_configuration(root: DebianRoot) -> None:
    install(root, OLD)
    root.run("nri-numamem", "install", "--external")
    root.shell(f"echo 'logLevel: debug' >>{CONFIG}")
    printed = upgrade(root, NEW)
    assert f"{CONFIG} created as {CONFIG}.rpmnew" in printed
    assert root.run("readlink", WANTED) == "/usr/lib/systemd/system/nri-numamem.service\n"
    assert root.run("cat", CONFIG) == f"{OLD_CONFIG}logLevel: debug\n"
    assert root.run("cat", f"{CONFIG}.rpmnew") == example_text()
    printed = rpm(root, "--erase", "nri-numamem")
    assert f"removed {WANTED}\n" in printed
    assert f"{CONFIG} saved as {CONFIG}.rpmsave" in printed
    assert not exists(root, WANTED)
    assert not exists(root, CONFIG)


def test_an_upgrade_of_a_launched_plugin(root: DebianRoot) -> None:
    """No new configuration hides that of the plugin, which `install --launched` renamed."""
    install(root, OLD)
    root.run("nri-numamem", "install", "--launched")
    root.shell(f"echo 'logLevel: debug' >>{LAUNCHED_CONFIG}")
    install(root, NEW)
    assert root.run("readlink", ENTRY) == "/usr/bin/nri-numamem\n"
    assert root.run("cat", LAUNCHED_CONFIG) == f"{OLD_CONFIG}logLevel: debug\n"
    assert not exists(root, CONFIG)
    version = payload.upstream_version()
    assert rpm(root, "--query", "nri-numamem").startswith(f"nri-numamem-{version}-1.")


def test_an_installation_after_an_erase_uses_what_was_kept(root: DebianRoot) -> None:
    install(root, NEW)
    root.run("nri-numamem", "install", "--launched")
    root.shell(f"echo 'logLevel: debug' >>{LAUNCHED_CONFIG}")
    rpm(root, "--erase", "nri-numamem")
    install(root, NEW)
    printed = root.run("nri-numamem", "install", "--external")
    assert f"moved {LAUNCHED_CONFIG} to {CONFIG}\n" in printed
    assert "logLevel: debug" in root.run("cat", CONFIG)


def test_an_erase_while_steps_remain(root: DebianRoot) -> None:
    """Pinned containers cannot be released without a runtime; the entry is removed all the same."""
    install(root, NEW)
    root.run("nri-numamem", "install", "--launched")
    root.shell(pinned_container.SCRIPT)
    assert "nri-numamem: the steps above remain" in rpm(root, "--erase", "nri-numamem")
    assert not exists(root, ENTRY)
    assert not exists(root, "/usr/bin/nri-numamem")
    assert exists(root, str(lock_file_of(Path(STATE_FILE))))


def test_an_erase_that_would_leave_the_entry_is_refused(root: DebianRoot) -> None:
    """With configurations of two runtimes, the command needs the name of one."""
    install(root, NEW)
    root.run("nri-numamem", "install", "--launched")
    root.shell(
        "mkdir -p /etc/containerd /etc/crio; touch /etc/containerd/config.toml /etc/crio/crio.conf"
    )
    done = attempt(root, "--erase", "nri-numamem")
    assert done.returncode != 0
    assert "name the runtime with --runtime" in done.stdout
    assert root.run(ENTRY, "--version") == f"nri-numamem {VERSION}\n"
    root.run("nri-numamem", "uninstall", "--runtime", "containerd")
    assert not exists(root, ENTRY)


def test_an_erase_of_a_program_that_does_not_start(root: DebianRoot) -> None:
    install(root, NEW)
    root.run("nri-numamem", "install", "--launched")
    root.shell("ln -s /usr/bin/other /opt/nri/plugins/20-other")
    root.shell("echo '#!/missing' >/usr/bin/nri-numamem")
    assert "uninstall failed" in rpm(root, "--erase", "nri-numamem")
    assert root.run("ls", "/opt/nri/plugins") == "20-other\n"
