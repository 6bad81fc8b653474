"""The random settings of lives are settings that the plugin reads."""

import random
from collections import Counter
from dataclasses import replace

from nri_numamem.config.settings import settings_from_mapping
from nri_numamem.numa import Exclusive, NodeSet
from tests.sequences.machine import random_machine
from tests.sequences.settings import (
    ANNOTATION,
    EVEN,
    NAMESPACE,
    PARTITIONS,
    namespace_of,
    random_annotations,
    random_settings,
    with_partitions,
)


def test_the_plugin_reads_them_and_all_values_occur() -> None:
    seen: Counter[object] = Counter()
    for seed in range(150):
        rng = random.Random(seed)
        machine = random_machine(rng)
        settings = random_settings(rng, machine)
        read = settings_from_mapping(settings.document())
        assert read.topology_manager_policy == settings.policy
        assert read.topology_manager_scope == settings.scope
        seen.update((settings.policy, settings.scope, settings.unsatisfiable))
        seen.update((settings.without_cpus, settings.strategy))
        seen["policies"] += settings.memory_policies.is_active
        seen["even groups"] += settings.memory_policies.max_nodes > 0
        seen["Burstable"] += settings.pins_burstable
        seen["pods as a whole"] += settings.places_pods
        assert settings.excluded(machine).issubset(machine.node_set)
        assert settings.policy in str(settings)
    assert len(seen) == 4 + 2 + 2 + 3 + 4 + 4
    assert min(seen.values()) > 5


def test_partitions_leave_nodes_to_the_rest() -> None:
    seen: Counter[object] = Counter()
    for seed in range(80):
        rng = random.Random(seed)
        machine = random_machine(rng)
        settings = with_partitions(rng, machine, random_settings(rng, machine))
        read = settings_from_mapping(settings.document()).partitions
        taken = NodeSet(node for each in read for node in each.nodes)
        assert (machine.node_set - settings.excluded(machine)) - taken
        seen[len(read)] += 1
        for each in read:
            seen.update((each.exclusive, each.confine))
        seen.update(namespace_of(f"pod-{number}", settings) for number in range(6))
        assert namespace_of("pod-1", replace(settings, partitions=())) == NAMESPACE
    assert seen.keys() == {1, 2, *Exclusive, False, NAMESPACE, *PARTITIONS}
    assert min(seen.values()) > 5


def test_annotations_of_pods_and_containers() -> None:
    rng, seen = random.Random(1), Counter[str]()
    for _ in range(200):
        for name, value in random_annotations(rng, ("a", "b")).items():
            assert name in (ANNOTATION, f"{ANNOTATION}/container.a", f"{ANNOTATION}/container.b")
            seen.update((name, value))
    assert len(seen) == 3 + 8
    assert seen[EVEN] > 20
