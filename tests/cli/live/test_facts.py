from nri_numamem.cli.live.facts import Facts, pod_names
from nri_numamem.config.settings import Settings
from nri_numamem.engine.core.context import Context
from nri_numamem.engine.core.policy import Policy
from nri_numamem.engine.core.reason import Reason, Reasons
from nri_numamem.engine.core.state import EngineState
from nri_numamem.numa import Machine, NumaNode


def test_facts_begin_with_nothing_known() -> None:
    facts = Facts(0.0, Settings(), "no file: defaults", "")
    assert facts.holder is None
    assert facts.state is None
    assert facts.cgroups is None
    assert (facts.state_problem, facts.machine_problem, facts.cgroup_problem) == ("", "", "")


def test_names_of_pinned_and_unpinned_containers() -> None:
    context = Context.of(Machine((NumaNode(0, 1 << 30),)), Policy())
    state = EngineState(context.empty_accounting())
    assert pod_names(state) == {}
    one = Reason("i", "s", ("u", "c"), "ns", "one", "admitted")
    two = Reason("j", "t", ("v", "c"), "ns", "two", "unpinned_no_capacity")
    assert pod_names(state.with_reasons(Reasons({"i": one}, {"j": two}))) == {
        "u": ("ns", "one"),
        "v": ("ns", "two"),
    }
