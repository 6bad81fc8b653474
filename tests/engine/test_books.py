"""What the log shows of books and machine, in the kubelet's words."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nri_numamem.engine.books import books_record
from nri_numamem.engine.settings import Settings

if TYPE_CHECKING:
    from tests.engine.conftest import Host, NewHost

MI = 1 << 20


def test_the_books_in_the_words_of_the_kubelets_state_file(host: Host) -> None:
    host.create(host.run("a"), memory=1200 * MI)
    record = books_record(host.engine.state.books)
    assert record.event == "books"
    assert record.fields["entries"] == {
        "a": {"main": [{"numaAffinity": [0, 1], "type": "memory", "size": 1200 * MI}]}
    }
    nodes = record.fields["machineState"]
    assert isinstance(nodes, dict)
    assert list(nodes) == ["0", "1", "2", "3"]
    assert nodes["1"] == {
        "numberOfAssignments": 1,
        "memoryMap": {
            "memory": {
                "total": 1024 * MI,
                "systemReserved": 64 * MI,
                "allocatable": 928 * MI,
                "reserved": 272 * MI,
                "free": 656 * MI,
            },
            "hugepages-2Mi": {
                "total": 32 * MI,
                "systemReserved": 0,
                "allocatable": 32 * MI,
                "reserved": 0,
                "free": 32 * MI,
            },
        },
        "cells": [0, 1],
    }


def test_the_machine_record_says_where_reservations_come_from(new_host: NewHost) -> None:
    given = new_host().engine.context.record("1.2.3")
    assert given.event == "machine"
    assert given.fields["version"] == "1.2.3"
    assert given.fields["reserved_memory_from"] == "settings"
    derived = new_host(Settings()).engine.context.record("1.2.3")
    assert derived.fields["reserved_memory_from"] == "derived"
    nodes = derived.fields["nodes"]
    assert isinstance(nodes, dict)
    assert [node["reserved"] for node in nodes.values()] == [{"memory": 25 * MI}] * 4
