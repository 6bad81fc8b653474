from nri_numamem.cli.live.facts import Facts
from nri_numamem.config.settings import Settings


def test_facts_begin_with_nothing_known() -> None:
    facts = Facts(0.0, Settings(), "no file: defaults", "")
    assert facts.holder is None
    assert facts.state is None
    assert facts.cgroups is None
    assert (facts.state_problem, facts.machine_problem, facts.cgroup_problem) == ("", "", "")
