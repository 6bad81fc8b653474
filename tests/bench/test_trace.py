"""The trace has every function of the package once per call, and nothing else."""

from pathlib import Path
from types import ModuleType

import pytest

from tests.bench import targets, trace
from tests.bench.trace import Call, Trace, Tracer
from tests.load_module import load_module

SOURCE_A = """
from dataclasses import dataclass

@dataclass
class Value:
    number: int

    @property
    def double(self):
        return 2 * self.number

def numbers():
    yield 1
    yield 2

def outer(inner):
    total = sum(numbers())
    inner(Value(total).double)
    try:
        fail()
    except ValueError:
        pass
    return (lambda: after())()

def fail():
    raise ValueError("number")

def after():
    return len([n for n in range(3)])
"""
SOURCE_B = """
def inner(number):
    assert number == 6
"""


def load(file: Path, source: str) -> ModuleType:
    file.write_text(source)
    return load_module(file)


@pytest.fixture
def traced(tmp_path: Path) -> Trace:
    a, b = load(tmp_path / "a.py", SOURCE_A), load(tmp_path / "b.py", SOURCE_B)
    return Tracer(tmp_path).run(lambda: a.outer(b.inner))


def test_functions_are_listed_in_order_with_their_depth(traced: Trace) -> None:
    assert traced.calls == (
        Call("a.py", "outer", 0),
        Call("a.py", "numbers", 1),
        Call("a.py", "Value.double", 1),
        Call("b.py", "inner", 1),
        Call("a.py", "fail", 1),
        Call("a.py", "after", 1),
    )


def test_files_and_changes_of_file_are_counted(traced: Trace) -> None:
    assert traced.files == ("a.py", "b.py")
    assert traced.file_changes == 2


def test_lambdas_and_resumed_generators_count_as_calls(traced: Trace) -> None:
    # The lambda and two resumptions; Python 3.12 and later have no frame for a comprehension.
    assert traced.frames - len(traced.calls) in (3, 4)


def test_the_profile_function_is_removed_after_an_error(tmp_path: Path) -> None:
    module = load(tmp_path / "a.py", SOURCE_A)
    with pytest.raises(ValueError, match="number"):
        Tracer(tmp_path).run(module.fail)
    assert Tracer(tmp_path).run(lambda: None).calls == ()


def test_a_creation_passes_session_engine_and_managers() -> None:
    found = trace.trace_creation()
    assert found.calls[0] == Call("nri/session.py", "PluginSession.receive_data", 0)
    assert found.calls[-1].name == "frame_message"
    rooms = {file.partition("/")[0] for file in found.files}
    assert {"ttrpc", "nri", "engine", "memorymanager", "topologymanager"} <= rooms


def test_the_path_of_a_creation_stays_short() -> None:
    found = trace.trace_creation()
    assert found.frames <= targets.MAX_PATH_CALLS
    assert len(found.files) <= targets.MAX_PATH_FILES
    assert found.file_changes <= targets.MAX_PATH_FILE_CHANGES


def test_two_creations_have_the_same_path() -> None:
    assert trace.trace_creation() == trace.trace_creation()


def test_the_path_names_a_file_where_it_changes(
    traced: Trace, capsys: pytest.CaptureFixture[str]
) -> None:
    assert [line.split() for line in trace.lines(traced)][2:5] == [
        ["Value.double"],
        ["b.py", "inner"],
        ["a.py", "fail"],
    ]
    trace.main(["--figures"])
    assert capsys.readouterr().out == f"{trace.figures(trace.trace_creation())}\n"
    trace.main([])
    assert "PluginSession.receive_data" in capsys.readouterr().out
