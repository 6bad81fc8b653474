import copy
import io
from typing import cast

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console, RenderableType

from nri_numamem.cli.render.bars import bar_cells
from nri_numamem.cli.render.node_table import legend, node_table
from nri_numamem.memorymanager.state_json import NodeJson, StateJson, TableJson

GI = 1 << 30


def _figures(total: int, system: int, pools: int, reserved: int) -> TableJson:
    allocatable = total - system - pools
    return {
        "total": total * GI,
        "systemReserved": system * GI,
        "allocatable": allocatable * GI,
        "reserved": reserved * GI,
        "free": (allocatable - reserved) * GI,
    }


def _node(cells: list[int], assignments: int, used: int) -> NodeJson:
    return {
        "numberOfAssignments": assignments,
        "cells": cells,
        "memoryMap": {
            "memory": _figures(64, 4, 4, used),
            "hugepages-1Gi": _figures(4, 0, 0, 1),
            "hugepages-2Mi": _figures(0, 0, 0, 0),
        },
    }


@pytest.fixture
def accounting() -> StateJson:
    made: StateJson = {
        "machineState": {
            "10": _node([10], 0, 0),
            "0": _node([0, 2], 2, 28),
            "2": _node([0, 2], 1, 56),
            "3": _node([3], 1, 14),
        },
        "entries": {
            "uid-1": {"server": [{"numaAffinity": [0, 2], "type": "memory", "size": 84 * GI}]},
            "uid-2": {"job": [{"numaAffinity": [3], "type": "memory", "size": 14 * GI}]},
        },
    }
    del made["machineState"]["3"]["memoryMap"]["hugepages-1Gi"]
    return made


def _drawn(what: RenderableType, width: int) -> list[str]:
    console = Console(file=io.StringIO(), width=width, color_system=None)
    console.print(what)
    assert isinstance(console.file, io.StringIO)
    return [line.rstrip() for line in console.file.getvalue().splitlines()]


def test_the_table_at_80_columns(accounting: StateJson) -> None:
    assert _drawn(node_table(accounting, width=80), 80) == [
        " node group  memory                                      free 1Gi pages    free",
        "    0 0,2    ▒▒≡≡██████████████████··················    28Gi ██·······     3Gi",
        "    2 0,2    ▒▒≡≡████████████████████████████████████       0 ██·······     3Gi",
        "    3 single ▒▒≡≡█████████···························    42Gi",
        "   10        ▒▒≡≡····································    56Gi ██·······     3Gi",
    ]


def test_long_amounts_are_not_cut(accounting: StateJson) -> None:
    accounting["machineState"]["10"]["memoryMap"]["memory"]["free"] = 1023 * GI + GI // 2
    lines = _drawn(node_table(accounting, width=80), 80)
    assert all(len(line) <= 80 for line in lines)
    assert " 1023.5Gi " in lines[-1]


def test_changed_nodes_are_marked(accounting: StateJson) -> None:
    before = copy.deepcopy(accounting)
    before["machineState"]["2"]["numberOfAssignments"] = 0
    del before["machineState"]["10"]
    lines = _drawn(node_table(accounting, width=80, before=before), 80)
    assert [line[:5] for line in lines[1:]] == ["    0", ">   2", "    3", ">  10"]


def test_the_table_in_ascii(accounting: StateJson) -> None:
    lines = _drawn(node_table(accounting, width=80, ascii_only=True), 80)
    assert all(line.isascii() for line in lines)
    assert lines[1].startswith("    0 0,2    %%==####")
    (line,) = _drawn(legend(ascii_only=True), 80)
    assert line == "%% system reserved   == hugepage pools   ## assigned   .. free"


def test_wide_tables_list_containers(accounting: StateJson) -> None:
    lines = _drawn(node_table(accounting, width=120, pod_names={"uid-1": "db"}), 120)
    assert lines[0].endswith("containers")
    assert lines[1].endswith("db/server")
    assert lines[2].endswith("db/server")
    assert lines[3].endswith("uid-2/job")
    assert max(map(len, lines)) <= 120


@pytest.mark.parametrize("width", [60, 80, 99, 100, 118, 120])
def test_lines_fit_the_width(accounting: StateJson, width: int) -> None:
    lines = _drawn(node_table(accounting, width=width), 200)
    assert max(map(len, lines)) <= width
    assert len(lines) == 5


def test_page_sizes_without_pages_are_left_out(accounting: StateJson) -> None:
    assert "2Mi" not in _drawn(node_table(accounting, width=80), 80)[0]


def _many(accounting: StateJson, count: int) -> StateJson:
    nodes = {str(node_id): _node([node_id], 0, 0) for node_id in range(100, 100 + count)}
    return {
        "machineState": {**nodes, **accounting["machineState"]},
        "entries": accounting["entries"],
    }


def test_consecutive_equal_nodes_share_a_line(accounting: StateJson) -> None:
    many = _many(accounting, 50)
    many["machineState"]["120"] = _node([120], 1, 7)
    lines = _drawn(node_table(many, width=80, before=_many(accounting, 45)), 80)
    labels = [line[:8].strip() for line in lines[1:]]
    assert labels == ["0", "2", "3", "10", "100-119", "> 120", "121-144", ">145-149"]
    assert max(map(len, lines)) <= 80
    lines = _drawn(node_table(many, width=120), 120)
    assert max(map(len, lines)) <= 120
    assert len(lines) == 8


def test_unknown_resources_are_first(accounting: StateJson) -> None:
    accounting["machineState"]["3"]["memoryMap"]["hugepages-odd"] = _figures(1, 0, 0, 0)
    header = _drawn(node_table(accounting, width=80), 80)[0]
    assert header.index("odd pages") < header.index("1Gi pages")


def test_no_nodes_make_an_empty_table() -> None:
    nothing: StateJson = {"machineState": {}, "entries": {}}
    assert len(_drawn(node_table(nothing, width=80), 80)) == 1


def test_colours_only_on_a_terminal(accounting: StateJson) -> None:
    console = Console(file=io.StringIO(), force_terminal=True, color_system="standard", width=80)
    console.print(node_table(accounting, width=80))
    assert isinstance(console.file, io.StringIO)
    assert "\x1b[36m" in console.file.getvalue()


@given(st.lists(st.integers(0, 1 << 40), min_size=1, max_size=4), st.integers(16, 100))
def test_bars_have_the_given_width(sizes: list[int], width: int) -> None:
    cells = bar_cells(sizes, width)
    assert sum(cells) == (width if any(sizes) else 0)
    for size, count in zip(sizes, cells, strict=True):
        assert (count > 0) == (size > 0)
        if size:
            # A few cells off its share at most: one per other part.
            assert abs(count - size * width / sum(sizes)) <= len(sizes)


@pytest.mark.slow
@pytest.mark.parametrize("page_sizes", [0, 1, 2])
@pytest.mark.parametrize("ids", [(0, 1, 2, 3), (1000, 1001), tuple(range(12))])
def test_ids_and_amounts_are_whole_at_every_width(ids: tuple[int, ...], page_sizes: int) -> None:
    names = ["memory", "hugepages-2Mi", "hugepages-1Gi"][: 1 + page_sizes]
    held = [{"numaAffinity": list(ids), "type": "memory", "size": GI}]
    accounting = {
        "machineState": {
            str(node_id): {
                "numberOfAssignments": 1,
                "cells": [node_id],
                "memoryMap": {
                    name: _figures(64, 0, 0, number + place) for place, name in enumerate(names)
                },
            }
            for number, node_id in enumerate(ids)
        },
        "entries": {f"pod-{number}": {"a-long-name": held} for number in range(6)},
    }
    for width in range(60, 161):
        lines = _drawn(node_table(cast("StateJson", accounting), width=width), width)[1:]
        assert [int(line.split()[0]) for line in lines] == list(ids), width
        for number, line in enumerate(lines):
            assert f" {64 - number}Gi" in line, width
        assert max(map(len, lines)) <= width
