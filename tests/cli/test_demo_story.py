from nri_numamem.cli import configuration
from nri_numamem.cli.demo_story import CONFIG, STEPS, machine
from nri_numamem.memorymanager.quantity import parse_quantity


def test_the_reservations_add_up_as_the_kubelet_wants() -> None:
    settings = configuration.load_text(CONFIG, "demo")
    reserved = sum(entry.limits["memory"] for entry in settings.reserved_memory)
    wanted = [settings.kube_reserved["memory"], settings.system_reserved["memory"]]
    wanted.append(settings.eviction_hard["memory.available"])
    assert reserved == sum(parse_quantity(text) for text in wanted)


def test_the_machine_has_near_and_far_nodes() -> None:
    made = machine()
    assert [made.nodes[0].distance_to(node) for node in range(4)] == [10, 12, 21, 21]
    assert [made.nodes[3].distance_to(node) for node in range(4)] == [21, 21, 12, 10]


def test_only_pods_that_came_are_removed() -> None:
    here: set[str] = set()
    for step in STEPS:
        if step.removes:
            here.remove(step.pod.name)
        here.add(step.pod.name)
