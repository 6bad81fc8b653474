"""The trace has every function of the package once per call, and nothing else."""

from pathlib import Path
from random import Random
from types import ModuleType

import pytest

from tests.bench import enumeration, placement, targets, trace
from tests.bench.figures import exponent
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


@pytest.fixture(scope="module")
def creations() -> dict[str, tuple[Trace, Trace]]:
    return {request: trace.trace_creation(request) for request in trace.REQUESTS}


def test_a_creation_passes_daemon_session_engine_and_managers(
    creations: dict[str, tuple[Trace, Trace]],
) -> None:
    before, after = creations["simple"]
    assert before.calls[0] == Call("nri/session.py", "PluginSession.receive_data", 0)
    assert before.calls[-1] == Call("nri/event_loop.py", "EventLoop._send", 0)
    rooms = {file.partition("/")[0] for file in before.files}
    assert rooms >= {"ttrpc", "nri", "daemon", "engine", "memorymanager", "topologymanager"}
    names = {call.name for call in after.calls}
    assert {"Engine.commit", "StateFile.append", "StateFile.offer", "LogWriter.put"} <= names


@pytest.mark.parametrize("request_name", trace.REQUESTS)
def test_the_path_of_a_creation_stays_short(
    creations: dict[str, tuple[Trace, Trace]], request_name: str
) -> None:
    for found, limit in zip(creations[request_name], targets.MAX_PATH[request_name], strict=True):
        assert found.frames <= limit.calls
        assert len(found.files) <= limit.files
        assert found.file_changes <= limit.file_changes


def test_two_creations_have_the_same_path(creations: dict[str, tuple[Trace, Trace]]) -> None:
    assert trace.trace_creation() == creations["simple"]


def test_the_path_does_not_grow_with_pods_and_hardly_with_nodes(
    creations: dict[str, tuple[Trace, Trace]],
) -> None:
    before, after = creations["simple"]
    assert [found.frames for found in trace.trace_creation(pods=50)] == [
        before.frames,
        after.frames,
    ]
    many_before, many_after = trace.trace_creation(nodes=64)
    assert many_before.frames == before.frames
    assert many_after.frames <= 2 * after.frames


def calls_of_admissions(nodes: int, pods: int) -> int:
    """Return the calls of 20 admissions on a half-full machine."""
    random = Random(f"{nodes} {pods}")
    context = placement.context_of(placement.machine_of(random, nodes, enumeration.POOLS))
    accounting = placement.half_full(random, context, pods)
    requests = [placement.request_of(random, context.machine) for _ in range(20)]
    return Tracer().run(lambda: enumeration._admit(context, accounting, requests)).frames


def test_calls_of_an_admission_grow_within_the_budget() -> None:
    """The benchmark measures times; calls have the same growth on every machine."""
    limits = {target.key: target.limit for target in targets.TARGETS}
    nodes = [(float(n), float(calls_of_admissions(n, 50))) for n in (4, 8, 16, 32)]
    assert exponent(nodes) <= limits["growth_nodes_p50"]
    pods = [(float(n), float(calls_of_admissions(8, n))) for n in (25, 50, 100, 200)]
    assert exponent(pods) <= limits["growth_pods_p50"]


def test_the_path_names_a_file_where_it_changes(
    traced: Trace, capsys: pytest.CaptureFixture[str]
) -> None:
    assert [line.split() for line in trace.lines(traced)][2:5] == [
        ["Value.double"],
        ["b.py", "inner"],
        ["a.py", "fail"],
    ]
    trace.main(["--figures"])
    shown = capsys.readouterr().out.splitlines()
    assert len(shown) == 2 * len(trace.REQUESTS)
    before, _ = trace.trace_creation()
    assert shown[0] == f"simple, before the reply: {trace.figures(before)}"
    trace.main([])
    assert "PluginSession.receive_data" in capsys.readouterr().out
