"""The dump of accounting and machine in the log, with the kubelet's keys."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nri_numamem.engine.core.policy import Policy
from nri_numamem.engine.queries.dump import accounting_record, restored_record
from nri_numamem.engine.records.plain import fields_of

if TYPE_CHECKING:
    from tests.engine.conftest import Host, NewHost

MI = 1 << 20


def test_the_dump_has_the_keys_of_the_kubelets_state_file(host: Host) -> None:
    host.create(host.run("a"), memory=1200 * MI)
    record = accounting_record(host.engine.state.accounting)
    assert record.event == "state_dump"
    assert fields_of(record)["entries"] == {
        "a": {"main": [{"numaAffinity": [0, 1], "type": "memory", "size": 1200 * MI}]}
    }
    nodes = fields_of(record)["machineState"]
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


def test_the_machine_record_names_the_source_of_reservations(new_host: NewHost) -> None:
    configured = new_host().engine.context.record("1.2.3")
    assert configured.event == "machine"
    assert fields_of(configured)["version"] == "1.2.3"
    assert fields_of(configured)["reserved_memory_source"] == "settings"
    derived = new_host(Policy()).engine.context.record("1.2.3")
    assert fields_of(derived)["reserved_memory_source"] == "derived"
    nodes = fields_of(derived)["nodes"]
    assert isinstance(nodes, dict)
    assert [node["reserved"] for node in nodes.values()] == [{"memory": 25 * MI}] * 4


def test_the_record_of_a_restored_state_has_numbers(host: Host) -> None:
    pod = host.run("a")
    host.create(pod)
    host.create(host.run("b"))
    host.stop_pod(pod)
    record = restored_record(host.engine.state)
    assert record.event == "state_restored"
    assert fields_of(record) == {"containers": 1, "ended_pods": 1}
