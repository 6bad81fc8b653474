from nri_numamem.cli.demo.steps import CONFIG, STEPS, machine
from nri_numamem.config import load as configuration
from nri_numamem.numa.quantity import parse_quantity


def test_the_reservations_add_up_as_the_kubelet_requires() -> None:
    settings = configuration.load_text(CONFIG, "demo")
    reserved = sum(entry.limits["memory"] for entry in settings.reserved_memory)
    expected = [settings.kube_reserved["memory"], settings.system_reserved["memory"]]
    expected.append(settings.eviction_hard["memory.available"])
    assert reserved == sum(parse_quantity(text) for text in expected)


def test_the_machine_has_near_and_far_nodes() -> None:
    made = machine()
    assert [made.nodes[0].distance_to(node) for node in range(4)] == [10, 12, 21, 21]
    assert [made.nodes[3].distance_to(node) for node in range(4)] == [21, 21, 12, 10]


def test_only_started_pods_are_removed() -> None:
    started: set[str] = set()
    for step in STEPS:
        if step.removes:
            started.remove(step.pod.name)
        started.add(step.pod.name)
