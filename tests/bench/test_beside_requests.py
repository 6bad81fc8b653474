"""Rounds over all containers, and the helper process on a real network namespace."""

import pytest

from nri_numamem.daemon.cgroup_sweep import ContainerCgroups
from nri_numamem.host.capabilities import CAP_SYS_ADMIN, has_capability
from tests.bench import beside_requests
from tests.bench.beside_requests import HelperUse, Residencies
from tests.bench.host import MI
from tests.bench.processes import PROC


def test_a_round_reads_all_containers_in_parts() -> None:
    found = beside_requests.residency(rounds=2, containers=40)
    assert 0 < found.part_s < found.round_s


def test_a_round_over_other_containers_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ContainerCgroups, "pages", lambda *_: None)
    with pytest.raises(RuntimeError, match="a round read 0 of 3"):
        beside_requests.residency(rounds=1, containers=3)


@pytest.mark.skipif(not has_capability(PROC, CAP_SYS_ADMIN), reason="needs CAP_SYS_ADMIN")
def test_the_helper_process_is_measured() -> None:
    used = beside_requests.helper(readings=3)
    assert used is not None
    assert used.reading_s > 0
    assert min(used.resident_bytes, used.plugin_bytes) > 5 * MI


def test_without_the_capability_nothing_is_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(beside_requests, "has_capability", lambda *_: False)
    assert beside_requests.helper(readings=1) is None


def test_the_table() -> None:
    found = Residencies(round_s=6e-3, part_s=2e-3)
    residency = [
        ("feature", "work beside the requests", "amount"),
        ("`residency`", "a round over 110 containers", "6.0 ms"),
        ("", "share of a processor, each 60 s", "0.010 %"),
        ("", "longest wait of a request", "2.0 ms"),
    ]
    assert beside_requests.rows(found, HelperUse(1e-3, 30 * MI, 40 * MI)) == [
        *residency,
        ("`networkHints`", "reading a namespace", "1.0 ms"),
        ("", "resident memory of the helper", "30.0 MiB"),
        ("", "to that of the plugin's modules", "0.75"),
    ]
    row = ("`networkHints`", "helper process", "not measured: needs CAP_SYS_ADMIN")
    assert beside_requests.rows(found, None) == [*residency, row]
