"""Plans as sentences and documents."""

from nri_numamem.cli.live.rebalancing import document, sentence
from nri_numamem.memorymanager.rebalance import Move, Rebalancing, Share
from nri_numamem.numa import NodeSet

GI = 1 << 30
NAMES = {"a": ("shop", "redis-0"), "b": ("shop", "api-0")}


def test_two_moves() -> None:
    first = Share("a", 0, ("redis",), 3 * GI, is_consented=True)
    plan = Rebalancing(
        (Move(first, 1, 8 * GI), Move(Share("b", 0, ("api", "log")), 2, GI)), NodeSet([0])
    )
    assert sentence(plan, NAMES) == (
        "would fit on node 0 if shop/redis-0 moved from node 0 to node 1 (3Gi resident of 8Gi) and "
        "shop/api-0 moved from node 0 to node 2 (1Gi, use unknown); without consent "
        "(movable.numamem.io): shop/api-0"
    )
    found = document(plan, NAMES)
    assert found["moveBytes"] == 4 * GI
    assert found["text"] == sentence(plan, NAMES)


def test_without_moves() -> None:
    assert sentence(Rebalancing(), NAMES) == "none with at most 2 moves"
    assert sentence(Rebalancing(is_complete=False), NAMES) == (
        "none found among the first 10000 combinations of pods and nodes"
    )
    blocking = (
        Share("a", 0, ("redis",), obstacle="hugepages"),
        Share("c", 1, ("x",), obstacle="devices"),
    )
    assert sentence(Rebalancing(blocking=blocking), NAMES) == (
        "none with at most 2 moves of pods that may move; in the way: shop/redis-0 on node 0 "
        "(hugepages) and c on node 1 (devices)"
    )
    assert document(Rebalancing(blocking=blocking), NAMES)["blocking"] == [
        {
            "namespace": "shop",
            "pod": "redis-0",
            "podUid": "a",
            "containers": ["redis"],
            "from": 0,
            "obstacle": "hugepages",
        },
        {
            "namespace": "",
            "pod": "",
            "podUid": "c",
            "containers": ["x"],
            "from": 1,
            "obstacle": "devices",
        },
    ]


def test_what_fits_now() -> None:
    assert sentence(Rebalancing(fits_now=True), NAMES) == "fits now: nothing has to move"
    fits = Rebalancing(nodes=NodeSet([1, 2]), fits_now=True)
    assert sentence(fits, NAMES) == "fits now on nodes 1-2: nothing has to move"
