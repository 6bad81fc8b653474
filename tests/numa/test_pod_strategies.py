"""Which strategies annotations may choose."""

import pytest

from nri_numamem.numa import PodStrategies, Strategy

SOME = PodStrategies((Strategy.PACK, Strategy.SPREAD), ("shop",))


def test_an_allowed_strategy() -> None:
    assert SOME.obstacle("shop", "pack") == ""
    assert PodStrategies((Strategy.PACK,)).obstacle("any", "pack") == ""


@pytest.mark.parametrize(
    ("strategies", "namespace", "text", "obstacle"),
    [
        (
            PodStrategies(),
            "shop",
            "pack",
            "podPlacementStrategies.allowed is empty, so annotations choose no strategy",
        ),
        (
            SOME,
            "lab",
            "pack",
            "podPlacementStrategies.namespaces does not list the pod's namespace",
        ),
        (
            SOME,
            "shop",
            "Pack",
            "it is none of lowest-ids, pack, spread, balanced-with-cpus",
        ),
        (SOME, "shop", "lowest-ids", "podPlacementStrategies.allowed has only pack, spread"),
    ],
)
def test_obstacles(strategies: PodStrategies, namespace: str, text: str, obstacle: str) -> None:
    assert strategies.obstacle(namespace, text) == obstacle
