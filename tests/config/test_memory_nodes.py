"""The setting memoryNodes: its values, and its errors."""

import pytest

from nri_numamem.config.settings import (
    Settings,
    SettingsError,
    settings_from_mapping,
    settings_to_mapping,
)
from nri_numamem.numa.memory_nodes import MemoryNodes, NodeClass, WithoutCpus

DRAM, CPULESS = NodeClass.DRAM, NodeClass.CPULESS


def read(value: object) -> MemoryNodes:
    return settings_from_mapping({"memoryNodes": value}).memory_nodes


def written(value: MemoryNodes) -> object:
    return settings_to_mapping(Settings(memory_nodes=value)).get("memoryNodes")


def test_nodes_without_cpus_are_excluded_by_default() -> None:
    assert read(None) == read({}) == MemoryNodes(WithoutCpus.EXCLUDE)
    empty = {"withoutCpus": None, "override": None}
    assert read(empty) == MemoryNodes()


@pytest.mark.parametrize(
    ("override", "expected"),
    [
        ({"4-5": "dram"}, {4: DRAM, 5: DRAM}),
        ({"2": "dram", "0,4": "cpuless"}, {0: CPULESS, 2: DRAM, 4: CPULESS}),
        ({7: "dram"}, {7: DRAM}),
    ],
)
def test_overrides(override: object, expected: dict[int, NodeClass]) -> None:
    found = read({"withoutCpus": "lastResort", "override": override})
    assert found == MemoryNodes(WithoutCpus.LAST_RESORT, expected)
    assert read(written(found)) == found


def test_the_document_is_short_without_overrides() -> None:
    assert written(MemoryNodes()) == {"withoutCpus": "exclude"}


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("exclude", "memoryNodes: 'exclude' instead of a mapping; write KEY: VALUE"),
        (
            {"withoutCPUs": "use"},
            (
                "memoryNodes.withoutCPUs: unknown key; did you mean withoutCpus? "
                "allowed: withoutCpus, override"
            ),
        ),
        (
            {"withoutCpus": "last-resort"},
            (
                "memoryNodes.withoutCpus: unknown value 'last-resort'; did you mean lastResort? "
                "allowed: exclude, lastResort, use"
            ),
        ),
        ({"override": ["4-7"]}, "memoryNodes.override: a list instead of a mapping; write"),
        (
            {"override": {"4-7": "ram"}},
            (
                "memoryNodes.override.4-7: unknown value 'ram'; did you mean dram? "
                "allowed: dram, cpuless"
            ),
        ),
        (
            {"override": {"4": "movable"}},
            "memoryNodes.override.4: unknown value 'movable'; allowed: dram, cpuless",
        ),
        (
            {"override": {"4-7": None}},
            "memoryNodes.override.4-7: no class; write one of: dram, cpuless",
        ),
        (
            {"override": {"node4": "dram"}},
            (
                "memoryNodes.override.node4: 'node4' is not a list of NUMA nodes; "
                'write ids from 0 to 1023, such as "4-7" or "2,4"'
            ),
        ),
        ({"override": {"": "dram"}}, "is not a list of NUMA nodes"),
        ({"override": {"1024": "dram"}}, "is not a list of NUMA nodes"),
        ({"override": {-1: "dram"}}, "memoryNodes.override.-1: '-1' is not a list of NUMA nodes"),
        (
            {"override": {"4-7": "dram", "6": "cpuless"}},
            "memoryNodes.override.6: NUMA node 6 is in two entries; keep it in one of them",
        ),
        ({"override": {True: "dram"}}, "the key True is not text; put it in quotes"),
    ],
)
def test_errors_name_place_and_remedy(value: object, text: str) -> None:
    with pytest.raises(SettingsError) as caught:
        read(value)
    assert text in str(caught.value)
    assert "\n" not in str(caught.value)


def test_the_settings_contain_it() -> None:
    document = {"memoryNodes": {"withoutCpus": "use", "override": {"4-7": "dram", "0": "cpuless"}}}
    settings = settings_from_mapping(document)
    assert settings.memory_nodes.without_cpus is WithoutCpus.USE
    assert settings_from_mapping(settings_to_mapping(settings)) == settings
