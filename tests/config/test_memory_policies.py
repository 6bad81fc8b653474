"""The setting memoryPolicy: its values, and its errors."""

import pytest

from nri_numamem.config.settings import (
    Settings,
    SettingsError,
    settings_from_mapping,
    settings_to_mapping,
)
from nri_numamem.numa import MemoryPolicies, OnUnsupported, PolicyMode

ALL = "interleave, weighted-interleave, bind, preferred, preferred-many, local"


def read(value: object) -> MemoryPolicies:
    return settings_from_mapping({"memoryPolicy": value}).memory_policies


def written(value: MemoryPolicies) -> object:
    return settings_to_mapping(Settings(memory_policies=value)).get("memoryPolicy")


def test_policies_are_off_by_default() -> None:
    assert read(None) == read({}) == MemoryPolicies()
    keys = ["modes", "namespaces", "defaults", "runtimes", "onUnsupported"]
    keys += ["maxNodes", "minPerNode"]
    assert read(dict.fromkeys(keys)) == MemoryPolicies()
    document = written(MemoryPolicies())
    assert document == {"runtimes": "auto", "onUnsupported": "Ignore"}
    document = written(MemoryPolicies(max_nodes=2))
    assert isinstance(document, dict)
    assert (document["maxNodes"], document["minPerNode"]) == (2, "256Mi")


def test_all_keys() -> None:
    found = read(
        {
            "modes": ["local", "interleave", "local"],
            "namespaces": ["shop", "lab", "shop"],
            "defaults": {"shop": "bind", "db": "preferred"},
            "runtimes": ["default", "crun"],
            "onUnsupported": "Reject",
            "maxNodes": 4,
            "minPerNode": "1.5Gi",
        }
    )
    assert found == MemoryPolicies(
        (PolicyMode.INTERLEAVE, PolicyMode.LOCAL),
        ("shop", "lab"),
        {"db": PolicyMode.PREFERRED, "shop": PolicyMode.BIND},
        ("default", "crun"),
        OnUnsupported.REJECT,
        4,
        3 << 29,
    )
    assert read(written(found)) == found


@pytest.mark.parametrize(
    ("value", "size_bytes"), [(0, 0), ("0", 0), (4096, 4096), ("2Mi", 2 << 20)]
)
def test_the_least_amount_per_node(value: object, size_bytes: int) -> None:
    found = read({"minPerNode": value})
    assert found.min_per_node_bytes == size_bytes
    assert read(written(found)) == found


def test_no_runtime_differs_from_auto() -> None:
    nowhere = read({"runtimes": []})
    assert nowhere.runtimes == ()
    assert read(written(nowhere)) == nowhere
    assert read({"runtimes": "auto"}).runtimes is None


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ([], "memoryPolicy: a list instead of a mapping; write KEY: VALUE"),
        (
            {"mode": []},
            (
                "memoryPolicy.mode: unknown key; did you mean modes? allowed: modes, namespaces, "
                "defaults, runtimes, onUnsupported, maxNodes, minPerNode"
            ),
        ),
        (
            {"modes": "bind"},
            f"memoryPolicy.modes: 'bind' instead of a list; write a list of {ALL}",
        ),
        (
            {"modes": ["bind", "Interleave"]},
            (
                "memoryPolicy.modes[1]: unknown value 'Interleave'; did you mean interleave? "
                f"allowed: {ALL}"
            ),
        ),
        ({"modes": [None]}, f"memoryPolicy.modes[0]: no mode; write one of: {ALL}"),
        ({"defaults": {"shop": None}}, f"memoryPolicy.defaults.shop: no mode; write one of: {ALL}"),
        (
            {"namespaces": ["a", 1]},
            "memoryPolicy.namespaces[1]: 1 is not a namespace; write a namespace",
        ),
        (
            {"runtimes": [""]},
            "memoryPolicy.runtimes[0]: '' is not a runtime handler; write a runtime handler",
        ),
        (
            {"runtimes": "crun"},
            "memoryPolicy.runtimes: 'crun' instead of a list; write a list, each a runtime handler",
        ),
        (
            {"onUnsupported": "Fail"},
            "memoryPolicy.onUnsupported: unknown value 'Fail'; allowed: Ignore, Reject",
        ),
        (
            {"maxNodes": -1},
            "memoryPolicy.maxNodes: -1 is out of range; write a whole number from 0 to 1024",
        ),
        (
            {"minPerNode": "-1Mi"},
            (
                "memoryPolicy.minPerNode: '-1Mi' is negative; an amount of memory is at least 0; "
                "write an amount such as 512Mi"
            ),
        ),
        (
            {"minPerNode": True},
            "memoryPolicy.minPerNode: True instead of an amount; write an amount such as 512Mi",
        ),
    ],
)
def test_errors(value: object, text: str) -> None:
    with pytest.raises(SettingsError) as caught:
        read(value)
    assert str(caught.value) == text
