"""The running instance and its state file: one fault each."""

import json
from pathlib import Path

import pytest

from nri_numamem.cli.doctor.findings import Verdict
from nri_numamem.cli.main import main
from nri_numamem.engine.core.reason import Reason, Reasons
from nri_numamem.engine.core.snapshot import snapshot
from nri_numamem.engine.core.state import EngineState, Holder
from nri_numamem.memorymanager import Block, State
from nri_numamem.numa import NodeSet
from nri_numamem.observe.files import lock_file_of
from nri_numamem.observe.plugin_file import PluginFacts, StartMode, encode
from nri_numamem.version import VERSION
from tests.cli.doctor.host_files import CONFIG, EMPTY_STATE, STATE, Change, HostFiles, expect_fault


def damage_the_state(files: HostFiles) -> None:
    files.write(STATE, EMPTY_STATE.decode()[:-9])


def disable_the_lock(files: HostFiles) -> None:
    files.write(CONFIG, 'stateFile: ""\n')


KEY = ("u1", "main")
ID = "a" * 64


def state(event: str, *, pinned: bool, page_bytes: int = 0) -> str:
    nodes = NodeSet([0])
    blocks = (Block(nodes, "memory", 1 << 30), Block(nodes, "hugepages-2Mi", page_bytes))
    reason = Reason(ID, "s1", KEY, "prod", "db-0", event)
    reasons = Reasons({ID: reason}) if pinned else Reasons({}, {ID: reason})
    return snapshot(
        EngineState(
            State({}, {"u1": {"main": blocks}} if pinned else {}),
            holders={KEY: Holder(ID, "s1", KEY)} if pinned else {},
            keys={ID: KEY} if pinned else {},
        ).with_reasons(reasons)
    ).decode()


def leave_a_container_unpinned(files: HostFiles) -> None:
    files.write(STATE, state("unpinned_no_capacity", pinned=False))


def let_another_program_pin(files: HostFiles) -> None:
    files.write(STATE, state("cpuset_mems_conflict", pinned=True))


def shrink_a_pool(files: HostFiles) -> None:
    files.write(STATE, state("admitted", pinned=True, page_bytes=4 << 20))


def restart_the_plugin(files: HostFiles) -> None:
    facts = PluginFacts("1.2.3", 9, StartMode.RESTARTED, "launched", 1_700_000_000)
    files.write(STATE.replace("nri_numamem_state", "plugin.json"), encode(facts).decode())


def damage_the_description(files: HostFiles) -> None:
    files.write(STATE.replace("nri_numamem_state", "plugin.json"), "{")


@pytest.mark.parametrize(
    ("change", "check", "verdict", "text"),
    [
        (
            leave_a_container_unpinned,
            "unpinned_containers",
            Verdict.WARN,
            "that run unpinned: 1 (prod/db-0/main)",
        ),
        (let_another_program_pin, "cpuset_mems", Verdict.WARN, "of prod/db-0/main"),
        (shrink_a_pool, "hugepage_pools", Verdict.WARN, "on node 0 hold 4Mi of hugepages-2Mi"),
        (restart_the_plugin, "restarts", Verdict.WARN, "at 2023-11-14 22:13:20 UTC (pid 9)"),
        (damage_the_description, "restarts", Verdict.UNKNOWN, "plugin.json: not a document"),
        (damage_the_state, "state_file", Verdict.WARN, "nri_numamem_state: "),
        (disable_the_lock, "instance", Verdict.WARN, "stateFile is empty"),
    ],
    ids=lambda value: getattr(value, "__name__", None),
)
def test_a_host_with_one_fault(
    good_host: HostFiles, change: Change, check: str, verdict: Verdict, text: str
) -> None:
    expect_fault(good_host, change, check, verdict, text)


def test_another_version_runs(good_host: HostFiles) -> None:
    restart_the_plugin(good_host)
    finding = good_host.findings()["version"]
    assert finding.verdict is Verdict.WARN
    assert finding.text == f"runs 1.2.3, installed {VERSION}"
    good_host.path(str(lock_file_of(Path(STATE)))).unlink()
    assert "version" not in good_host.findings()


def test_no_instance_runs(host_files: HostFiles, capsys: pytest.CaptureFixture[str]) -> None:
    finding = host_files.findings()["instance"]
    assert finding.verdict is Verdict.FAIL
    assert "the plugin does not run" in finding.text
    assert main(["doctor", "--root", str(host_files.root), "--output", "json"]) == 2
    listed = json.loads(capsys.readouterr().out)["findings"]
    assert [entry["verdict"] for entry in listed].count("fail") == 1


def test_a_list_of_containers_is_cut(good_host: HostFiles) -> None:
    reasons = {
        str(number): Reason(str(number), "s", ("u", f"c{number}"), "ns", "p", "admitted")
        for number in range(7)
    }
    unpinned = EngineState(State({}, {})).with_reasons(Reasons({}, reasons))
    good_host.write(STATE, snapshot(unpinned).decode())
    text = good_host.findings()["unpinned_containers"].text
    assert text.endswith("ns/p/c3, ns/p/c4 and 2 more)")


def test_the_state_file_with_the_former_name(good_host: HostFiles) -> None:
    former = STATE.replace("nri_numamem_state", "memory_manager_state")
    (good_host.root / STATE).rename(good_host.root / former)
    assert good_host.findings()["state_file"].text.startswith(f"/{former} was last changed ")
