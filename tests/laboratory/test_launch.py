import stat
import sys
from pathlib import Path

import pytest

from tests.coverage_environment import coverage_variables
from tests.laboratory.launch import launch
from tests.laboratory.version import RuntimeVersion

# Sends its environment and descriptors through its socket, then waits for the end of the stream.
_PLUGIN = """#!{python} -IS
import os, socket
links = {{}}
for fd in sorted(os.listdir("/proc/self/fd"), key=int):
    try:
        links[int(fd)] = os.readlink("/proc/self/fd/" + fd)
    except OSError:
        pass
sock = socket.socket(fileno=3)
sock.sendall(repr((dict(os.environ), links)).encode() + b"\\n")
sock.recv(1)
"""


@pytest.fixture
def script(tmp_path: Path) -> Path:
    path = tmp_path / "10-numamem"
    path.write_text(_PLUGIN.format(python=sys.executable))
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return path


def _started(path: Path, version: RuntimeVersion) -> tuple[dict[str, str], dict[int, str]]:
    sock, process = launch(path, "10-numamem", version)
    with sock, sock.makefile("rb") as lines:
        sock.settimeout(10.0)
        environment, links = eval(lines.readline())  # noqa: S307 - the output of the script above
        assert process.wait(0.01) is None
    assert process.wait(10.0) == 0
    assert process.wait(0) == 0
    process.kill()
    return environment, links


def test_three_variables_and_four_descriptors(script: Path) -> None:
    environment, links = _started(script, RuntimeVersion("containerd", "v2.3.4", (0, 12, 0)))
    # CPython adds LC_CTYPE when it coerces the C locale; a fixture adds coverage's variables.
    for name in ("LC_CTYPE", *coverage_variables()):
        environment.pop(name, None)
    assert environment == {
        "NRI_PLUGIN_NAME": "numamem",
        "NRI_PLUGIN_IDX": "10",
        "NRI_PLUGIN_SOCKET": "3",
    }
    assert [links[fd] for fd in range(3)] == ["/dev/null"] * 3
    assert [fd for fd, link in links.items() if link.startswith("socket:")] == [3]


def test_old_versions_pass_the_full_name_and_a_duplicate(script: Path) -> None:
    environment, links = _started(script, RuntimeVersion("containerd", "v1.7.6", (0, 3, 0)))
    assert environment["NRI_PLUGIN_NAME"] == "10-numamem"
    assert [fd for fd, link in links.items() if link.startswith("socket:")] == [3, 6]
    assert links[3] == links[6]


def test_a_plugin_can_be_killed(script: Path) -> None:
    sock, process = launch(script, "10-numamem", RuntimeVersion())
    process.kill()
    assert process.exit_status == -9
    process.kill()
    sock.close()


def test_a_file_that_is_not_executable_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="No such file"):
        launch(tmp_path / "10-missing", "10-missing", RuntimeVersion())
