from dataclasses import dataclass, field

import pytest

from tests.virtual.world import VirtualClock, VirtualProcess, World


@dataclass
class Input:
    is_readable: bool = False


@dataclass
class Program:
    """Waits again and again, and notes the virtual time of each wake-up."""

    world: World
    source: Input = field(default_factory=Input)
    woken_at_s: list[float] = field(default_factory=list)

    def run(self) -> int:
        while len(self.woken_at_s) < 3:
            process = self.world.process
            assert process is not None
            process.wait(self.world.now_s + 10, [self.source])
            self.woken_at_s.append(self.world.now_s)
            self.source.is_readable = False
        return 7


def start(world: World) -> Program:
    program = Program(world)
    world.process = VirtualProcess(program.run)
    return program


def test_time_passes_only_between_waits() -> None:
    world = World()
    begin_s = world.now_s
    program = start(world)
    assert not world.advance(25)
    assert program.woken_at_s == [begin_s + 10, begin_s + 20]
    assert world.now_s == begin_s + 25


def test_input_ends_a_wait() -> None:
    world = World()
    begin_s = world.now_s
    program = start(world)

    def send() -> None:
        program.source.is_readable = True

    world.after(3, send)
    assert world.advance(60, lambda: bool(program.woken_at_s))
    assert program.woken_at_s == [begin_s + 3]


def test_a_process_ends_with_its_status() -> None:
    world = World()
    start(world)
    world.advance(100)
    assert world.process is not None
    assert world.process.status == 7


def test_a_killed_process_runs_no_more() -> None:
    world = World()
    program = start(world)
    world.advance(1)
    process = world.process
    assert process is not None
    process.kill()
    assert process.status == -9
    world.advance(100)
    assert program.woken_at_s == []


def test_a_frozen_process_runs_later() -> None:
    world = World()
    begin_s = world.now_s
    program = start(world)
    world.advance(1)
    assert world.process is not None
    world.process.frozen_until_s = begin_s + 15
    world.advance(16)
    assert program.woken_at_s == [begin_s + 15]


def test_a_bug_ends_the_process() -> None:
    def fail() -> int:
        raise ValueError("a bug")

    world = World()
    world.process = VirtualProcess(fail)
    world.advance(1)
    assert world.process.status == 1
    assert isinstance(world.process.error, ValueError)


def test_timers_run_in_order() -> None:
    world = World()
    order: list[str] = []
    world.after(2, lambda: order.append("b"))
    world.after(1, lambda: order.append("a"))
    world.after(2, lambda: order.append("c"))
    world.advance(5)
    assert order == ["a", "b", "c"]


def test_the_clock_shows_virtual_time() -> None:
    world = World()
    clock = VirtualClock(world)
    before_s, wall_s = clock.monotonic_s(), clock.wall_s()
    world.advance(9)
    assert clock.monotonic_s() - before_s == 9
    assert clock.wall_s() - wall_s == 9


def test_a_process_runs_to_its_end() -> None:
    world = World()
    program = Program(world)
    assert world.run(program.run) == 7
    assert program.woken_at_s == [1010.0, 1020.0, 1030.0]
    assert world.process is None


def test_an_error_of_a_process_is_raised_where_it_runs() -> None:
    def fail() -> None:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        World().run(fail)


def test_a_run_fails_when_it_does_not_end() -> None:
    world = World()

    def wait_for_ever() -> None:
        assert world.process is not None
        while True:
            world.process.wait(world.now_s + 3600)

    with pytest.raises(AssertionError, match="within a day"):
        world.run(wait_for_ever)
