"""Memory policies over NRI: what the plugin's host supports, and a comparison of the results."""

from collections.abc import Mapping
from dataclasses import replace

from nri_numamem.config.settings import Settings
from nri_numamem.numa import PolicyMode, mode_and_count
from nri_numamem.scenario.outcome import Outcome
from tests.laboratory import api_pb2 as api

HANDLER = "runc"
"""The handler of the fake runtime's pods."""

# Enum names differ only by the prefix.
_PREFIX = "MPOL_"


def with_known_runtime(settings: Settings) -> Settings:
    """Return the settings with an OCI runtime that sets policies, as the scenario's does."""
    policies = settings.memory_policies
    if not policies.is_active:
        return settings
    return replace(settings, memory_policies=replace(policies, runtimes=(HANDLER,)))


def compare_policies(
    place: str, outcome: Outcome, played: Mapping[str, api.LinuxMemoryPolicy]
) -> list[str]:
    """Return one line for each container whose policy over NRI is not that of `outcome`."""
    expected = {
        name: f"{mode_and_count(each.policy)[0]} {each.nodes}"
        for name, results in outcome.found.memory_policies.items()
        for each in results
        if not each.cause
    }
    found = {name: _text(policy) for name, policy in played.items()}
    return [
        f"{place}: over NRI the memory policy of {name} is {found.get(name, 'none')}, "
        f"else {expected.get(name, 'none')}"
        for name in sorted(found.keys() | expected.keys())
        if found.get(name) != expected.get(name)
    ]


def _text(policy: api.LinuxMemoryPolicy) -> str:
    mode = PolicyMode[api.MpolMode.Name(policy.mode).removeprefix(_PREFIX)]
    return f"{mode} {policy.nodes}"
