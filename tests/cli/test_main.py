import errno
import importlib.util
import os
import re
import shlex
import signal
import subprocess
import sys
import tomllib
from pathlib import Path
from types import ModuleType

import pytest

from nri_numamem.cli.main import COMMANDS, main
from nri_numamem.version import VERSION

PYPROJECT = Path(__file__).resolve().parents[2] / "pyproject.toml"


def test_the_version_is_the_packages() -> None:
    """It is written once: in version.py."""
    document = tomllib.loads(PYPROJECT.read_text())
    assert "version" not in document["project"]
    version = document["tool"]["setuptools"]["dynamic"]["version"]
    assert version == {"attr": "nri_numamem.version.VERSION"}
    assert re.fullmatch(r"\d+\.\d+\.\d+((a|b|rc)\d+)?", VERSION)


def test_version_and_help(capsys: pytest.CaptureFixture[str]) -> None:
    for option in ("--version", "--help"):
        with pytest.raises(SystemExit) as caught:
            main([option])
        assert caught.value.code == 0
    printed = capsys.readouterr().out
    assert f"nri-numamem {VERSION}" in printed
    for command, summary in COMMANDS.items():
        assert command in printed
        assert summary.split()[0] in printed


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_explains_itself(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main([command, "--help"])
    assert caught.value.code == 0
    shown = capsys.readouterr().out
    assert f"nri-numamem {command}" in shown
    assert max(map(len, shown.split("\nexamples:")[0].splitlines())) <= 80


@pytest.mark.parametrize("command", COMMANDS)
def test_examples_have_existing_options(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    examples = importlib.import_module(f"nri_numamem.cli.{command}").EXAMPLES
    assert examples
    for example in examples:
        program, name, *words = shlex.split(example)
        assert (program, name) == ("nri-numamem", command)
        assert len(example) <= 100
        actions = [word for word in words[:1] if word in ("show", "check", "default", "export")]
        with pytest.raises(SystemExit):
            main([command, *actions, "--help"])
        shown = capsys.readouterr().out
        assert all(word in shown for word in words if word.startswith("--"))


@pytest.mark.parametrize("arguments", [[], ["nonsense"], ["run", "--nonsense"]])
def test_wrong_use_is_status_2(arguments: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NRI_PLUGIN_SOCKET", raising=False)
    with pytest.raises(SystemExit) as caught:
        main(arguments)
    assert caught.value.code == 2


@pytest.mark.parametrize("number", [signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2])
def test_an_early_signal_does_not_end_the_plugin(number: signal.Signals) -> None:
    before = signal.signal(number, signal.SIG_DFL)
    try:
        with pytest.raises(SystemExit):
            main(["run", "--nonsense"])
        signal.raise_signal(number)
    finally:
        signal.signal(number, before)


def test_the_plugin_loads_neither_the_output_for_people_nor_features_that_are_off() -> None:
    """A runtime waits while this is imported, and it stays in memory."""
    code = (
        "import sys; before = {*sys.modules}; from nri_numamem.cli import main\n"
        "main.new_parser(['run']).parse_args(['run']); import nri_numamem.daemon.launched\n"
        "from nri_numamem.observe.log import loggers as logs; logs.get_logger()\n"
        "print(*{*sys.modules} - before)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = {*done.stdout.split()}
    assert "nri_numamem.cli.run" in loaded
    assert not loaded & {"yaml", "pyroute2", "prometheus_client", "h2"}
    assert "tests.laboratory.runtime" not in loaded
    features = (
        "daemon.host_cpus",
        "daemon.memory_policy_support",
        "daemon.namespace_reader",
        "daemon.residency_check",
        "engine.features.cpu_following.cpuset_cpus",
        "engine.features.residency.head_room",
        "engine.features.memory_policies.memory_policy",
        "engine.features.residency.remote_memory",
        "host.network",
    )
    names = {f"nri_numamem.{name}" for name in features}
    assert not loaded & names
    assert all(importlib.util.find_spec(name) for name in names)


PROGRAM = [sys.executable, "-m", "nri_numamem"]
SCENARIO = """\
machine: {nodes: [{id: 0, memory: 8Gi}]}
pods:
- metadata: {name: a, uid: a}
  spec: {containers: [{name: main, resources: {limits: {cpu: "1", memory: 1Gi}}}]}
steps: [{admit: {pod: a}}]
"""


@pytest.mark.parametrize(
    "arguments", [["simulate", "-"], ["simulate", "-", "--output", "json"], ["inspect"]]
)
def test_a_full_disk_is_one_line(arguments: list[str]) -> None:
    with Path("/dev/full").open("wb") as full:
        found = subprocess.run(
            [*PROGRAM, *arguments],
            input=SCENARIO,
            text=True,
            stdout=full,
            stderr=subprocess.PIPE,
            check=False,
        )
    assert found.returncode == 1
    assert found.stderr == "nri-numamem: cannot write the output: No space left on device\n"


@pytest.mark.parametrize("arguments", [["simulate", "-"], ["simulate", "-", "--output", "json"]])
def test_a_closed_pipe_is_no_error(arguments: list[str]) -> None:
    read, write = os.pipe()
    os.close(read)
    with os.fdopen(write, "wb") as closed:
        found = subprocess.run(
            [*PROGRAM, *arguments],
            input=SCENARIO,
            text=True,
            stdout=closed,
            stderr=subprocess.PIPE,
            check=False,
        )
    assert (found.returncode, found.stderr) == (0, "")


def test_other_errors_of_the_system_are_bugs(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_args: object) -> int:
        raise PermissionError(errno.EPERM, "not permitted")

    monkeypatch.setattr("nri_numamem.cli.inspect.main", fail)
    with pytest.raises(PermissionError):
        main(["inspect"])


@pytest.fixture
def inside(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let this process be the single file."""
    contents = ModuleType("single_file_contents")
    contents.LICENSES = "all of them"  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, contents.__name__, contents)
    monkeypatch.setattr(sys, "frozen", True, raising=False)


@pytest.mark.usefixtures("inside")
def test_the_single_file_prints_its_licences(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--licenses"]) == 0
    assert capsys.readouterr().out == "all of them\n"
    with pytest.raises(SystemExit):
        main(["--help"])
    assert "--licenses" in capsys.readouterr().out


def test_an_installed_program_has_no_such_option(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main(["--licenses"])
    assert caught.value.code == 2
    assert "required: COMMAND" in capsys.readouterr().err
