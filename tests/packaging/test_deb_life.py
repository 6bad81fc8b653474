"""The Debian package with the real program: installed, upgraded, removed and purged by dpkg."""

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from nri_numamem.config.example import example_text
from nri_numamem.config.settings import STATE_FILE
from nri_numamem.observe.files import lock_file_of
from nri_numamem.version import VERSION
from tests.packaging import deb_packages, debian_root, pinned_container
from tests.packaging.debian_root import DebianRoot
from tests.packaging.single_file_program import PROGRAM, needs_program, needs_root

pytestmark = [
    needs_program,
    needs_root,
    pytest.mark.skipif(shutil.which("dpkg-deb") is None, reason="no dpkg-deb"),
    pytest.mark.timeout(600),
]

NEW, OLD = "/mnt/new.deb", "/mnt/old.deb"
ENTRY = "/opt/nri/plugins/10-nri-numamem"
LAUNCHED_CONFIG = "/etc/nri/conf.d/10-nri-numamem.conf"
CONFIG = "/etc/nri-numamem/config.yaml"
WANTED = "/etc/systemd/system/multi-user.target.wants/nri-numamem.service"
EXPORTER_WANTED = "/etc/systemd/system/multi-user.target.wants/nri-numamem-export.service"
# Nothing listens there.
KUBECONFIG = {
    "kind": "Config",
    "current-context": "a",
    "contexts": [{"name": "a", "context": {"cluster": "a", "user": "a"}}],
    "clusters": [{"name": "a", "cluster": {"server": "https://127.0.0.1:1"}}],
    "users": [{"name": "a", "user": {"token": "a"}}],
}


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with this version, and an older one whose configuration is another."""
    folder = tmp_path_factory.mktemp("deb")
    deb_packages.build_two(PROGRAM, folder)
    return folder


@pytest.fixture(params=[debian_root.OLDEST])
def root(request: pytest.FixtureRequest, built: Path, tmp_path: Path) -> Iterator[DebianRoot]:
    with DebianRoot(request.param, built, tmp_path) as made:
        yield made


on_each_release = pytest.mark.parametrize("root", debian_root.RELEASES, indirect=True)


def install(root: DebianRoot, package: str) -> None:
    """Install or upgrade, as an upgrade without questions does."""
    root.run("dpkg", "--force-confdef", "--force-confold", "--install", package)


@on_each_release
def test_from_install_to_purge(root: DebianRoot) -> None:
    """Nothing is left after a purge, whatever the plugin wrote meanwhile."""
    root.run("mkdir", "-p", str(Path(EXPORTER_WANTED).parent))
    before = root.files()
    install(root, NEW)
    assert root.run("nri-numamem", "--version") == f"nri-numamem {VERSION}\n"
    installed = root.files()
    assert not {line for line in installed - before if line.startswith(("/opt", "/etc/systemd"))}

    root.run("nri-numamem", "install", "--launched")
    assert root.run("readlink", ENTRY) == "/usr/bin/nri-numamem\n"
    assert root.run("cat", LAUNCHED_CONFIG) == example_text()
    assert root.run(ENTRY, "--version") == f"nri-numamem {VERSION}\n"
    root.shell("""
      mkdir -p /var/lib/nri-numamem /var/log/nri-numamem /etc/systemd/system/nri-numamem.service.d
      echo text >/var/log/nri-numamem/nri-numamem.log
      echo text >/etc/systemd/system/nri-numamem.service.d/override.conf
    """)
    root.shell(f"""
      mkdir /etc/systemd/system/nri-numamem-export.service.d
      ln -s /usr/lib/systemd/system/nri-numamem-export.service {EXPORTER_WANTED}
      echo '{json.dumps(KUBECONFIG)}' >/etc/nri-numamem/kubeconfig
    """)

    # The API server does not answer, which a removal survives.
    output = root.run("dpkg", "--remove", "nri-numamem")
    assert "; run: kubectl delete noderesourcetopologies " in output
    assert root.attempt("readlink", EXPORTER_WANTED).returncode == 1
    removed = {line.partition(" ")[0] for line in root.files() - before}
    assert not {path for path in removed if path.startswith(f"{ENTRY}")}
    assert "/usr/bin/nri-numamem" not in removed
    assert {LAUNCHED_CONFIG, "/var/log/nri-numamem/nri-numamem.log"} < removed

    root.run("dpkg", "--purge", "nri-numamem")
    assert root.files() ^ before == set()


@on_each_release
def test_an_upgrade_keeps_the_installation_and_its_configuration(root: DebianRoot) -> None:
    install(root, OLD)
    root.run("nri-numamem", "install", "--external")
    assert root.run("readlink", WANTED) == "/usr/lib/systemd/system/nri-numamem.service\n"
    root.shell(f"echo 'logLevel: debug' >>{CONFIG}")
    install(root, NEW)
    assert root.run("readlink", WANTED) == "/usr/lib/systemd/system/nri-numamem.service\n"
    assert root.run("cat", CONFIG) == "# of 0.0.9\nlogLevel: debug\n"
    assert root.run("cat", f"{CONFIG}.dpkg-dist") == example_text()
    root.run("dpkg", "--purge", "nri-numamem")
    assert root.attempt("ls", "-A", "/etc/nri-numamem").returncode != 0
    assert root.attempt("readlink", WANTED).returncode != 0


def test_an_upgrade_of_a_launched_plugin(root: DebianRoot) -> None:
    """`install --launched` renamed the configuration, so dpkg does not bring it again."""
    install(root, OLD)
    root.run("nri-numamem", "install", "--launched")
    root.shell(f"echo 'logLevel: debug' >>{LAUNCHED_CONFIG}")
    install(root, NEW)
    assert root.run("readlink", ENTRY) == "/usr/bin/nri-numamem\n"
    assert root.run("cat", LAUNCHED_CONFIG) == "# of 0.0.9\nlogLevel: debug\n"
    assert root.attempt("test", "-e", CONFIG).returncode == 1


def test_an_image_gets_a_copy(root: DebianRoot) -> None:
    """The root directory of an image does not have the program of the package."""
    install(root, NEW)
    root.run("mkdir", "/image")
    root.run("nri-numamem", "install", "--launched", "--root", "/image")
    root.run("cmp", "/usr/bin/nri-numamem", f"/image{ENTRY}")
    assert root.attempt("test", "-e", ENTRY).returncode == 1
    root.run("nri-numamem", "uninstall", "--purge", "--root", "/image")
    assert root.run("find", "/image", "-type", "f") == ""


def test_a_removal_while_steps_remain(root: DebianRoot) -> None:
    """Pinned containers cannot be released without a runtime; the entry is removed all the same."""
    install(root, NEW)
    root.run("nri-numamem", "install", "--launched")
    root.shell(pinned_container.SCRIPT)
    printed = root.run("dpkg", "--remove", "nri-numamem")
    assert "nri-numamem uninstall --adopted" in printed
    assert "nri-numamem: the steps above remain" in printed
    assert root.attempt("readlink", ENTRY).returncode != 0
    assert root.attempt("test", "-e", str(lock_file_of(Path(STATE_FILE)))).returncode == 0
    root.run("dpkg", "--purge", "nri-numamem")
    assert root.attempt("test", "-e", str(lock_file_of(Path(STATE_FILE)))).returncode == 1


def test_a_removal_that_would_leave_the_entry_is_refused(root: DebianRoot) -> None:
    """With configurations of two runtimes, the command needs the name of one."""
    install(root, NEW)
    root.run("nri-numamem", "install", "--launched")
    root.shell(
        "mkdir -p /etc/containerd /etc/crio; touch /etc/containerd/config.toml /etc/crio/crio.conf"
    )
    done = root.attempt("dpkg", "--remove", "nri-numamem")
    assert done.returncode != 0
    assert "name the runtime with --runtime" in done.stdout
    assert root.run(ENTRY, "--version") == f"nri-numamem {VERSION}\n"
    root.run("nri-numamem", "uninstall", "--runtime", "containerd")
    assert root.attempt("readlink", ENTRY).returncode != 0


def test_a_removal_of_a_program_that_does_not_start(root: DebianRoot) -> None:
    install(root, NEW)
    root.run("nri-numamem", "install", "--launched")
    root.shell(f"""
      mkdir -p {Path(WANTED).parent}
      ln -s /usr/lib/systemd/system/nri-numamem.service {WANTED}
      ln -s /usr/bin/other /opt/nri/plugins/20-other
      echo '#!/missing' >/usr/bin/nri-numamem
    """)
    root.run("dpkg", "--remove", "nri-numamem")
    assert root.run("ls", "/opt/nri/plugins") == "20-other\n"
    assert root.attempt("readlink", WANTED).returncode != 0
