"""CPUs beside memory over NRI: a comparison of the results."""

from collections.abc import Mapping

from nri_numamem.scenario.outcome import Outcome


def compare_cpus(place: str, outcome: Outcome, played: Mapping[str, str]) -> list[str]:
    """Return one line for each container whose CPUs over NRI are not those of `outcome`.

    `played` is container name -> `cpuset.cpus`, of those that the step created or resized.
    """
    expected = {name: each.cpus for name, each in outcome.found.cpus.items()}
    return [
        f"{place}: over NRI the CPUs of {name} are {played.get(name) or 'unset'}, "
        f"else {expected.get(name) or 'unset'}"
        for name in sorted(played.keys() | expected.keys())
        if (played.get(name) or "") != (expected.get(name) or "")
    ]
