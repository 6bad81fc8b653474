"""The smallest example of each difference between the kubelet and the plugin.

A case is a life, and the results of both for each admission: the nodes of each container, or the
reason of a rejection. The kubelet's are checked against recorded answers (`cases.json`), the
plugin's are those of `simulate`. A step may have values for the plugin alone: `cpus` and `devices`
(container -> node ids, NUMA nodes of each device) stand for the hints of the kubelet's managers,
and `used` (node id -> MiB of 2Mi pages) is what programs outside of pods use.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tests.kubelet_managers.differences import Difference
from tests.kubelet_managers.lives import GI, Life

TOPOLOGY, UNEXPECTED = "TopologyAffinityError", "UnexpectedAdmissionError"
STATE_DIFFERS = "[memorymanager] the expected machine state is different from the real one"


@dataclass(frozen=True, slots=True)
class Case:
    """One example; `admit`, `resize`, `restart` and the kubelet's failed start have results."""

    difference: str
    life: Life
    kubelet: tuple[str, ...]
    plugin: tuple[str, ...]
    settings: Mapping[str, Any] | None = None
    """Settings of the plugin instead of those of the life."""


def life(
    nodes: list[dict[str, Any]],
    pods: Mapping[str, list[dict[str, Any]]],
    steps: list[dict[str, Any]],
    policy: str = "best-effort",
    scope: str = "container",
    *,
    closest: bool = False,
    limits: Mapping[str, dict[str, int]] | None = None,
) -> Life:
    """Return a life whose pods have the given containers, and perhaps pod-level limits."""
    return {
        "nodes": nodes,
        "policy": policy,
        "scope": scope,
        "closest": closest,
        "pods": {
            uid: {
                "containers": containers,
                **({"resources": limits[uid]} if limits and uid in limits else {}),
            }
            for uid, containers in pods.items()
        },
        "steps": steps,
    }


def nodes(*sizes_gi: int, pages: tuple[int, ...] = (), far: int = 21) -> list[dict[str, Any]]:
    """Return nodes with these allocatable GiB, and with MiB of 2Mi pages."""
    pools = pages or (0,) * len(sizes_gi)
    return [
        {
            "id": index,
            "memory": size * GI + 512 + pool,
            "reserved": 512,
            "pages": {"2Mi": pool // 2} if pages else {},
            "distances": [10 if other == index else far for other in range(len(sizes_gi))],
        }
        for index, (size, pool) in enumerate(zip(sizes_gi, pools, strict=True))
    ]


def app(memory_gi: int, name: str = "main", kind: str = "app", pages: int = 0) -> dict[str, Any]:
    """Return a container with GiB of memory and MiB of 2Mi pages."""
    requests = {"memory": memory_gi * GI, **({"hugepages-2Mi": pages} if pages else {})}
    return {"name": name, "kind": kind, "requests": requests}


def init(memory_gi: int, pages: int = 0) -> dict[str, Any]:
    return app(memory_gi, "init", "init", pages)


def admit(uid: str, *cpu_nodes: int, name: str = "main", **more: Any) -> dict[str, Any]:  # noqa: ANN401
    """Return a step; the CPUs of the container `name` are on the nodes `cpu_nodes`."""
    hints = {"hints": {name: {"cpu": [[list(cpu_nodes), True]]}}} if cpu_nodes else {}
    return {"admit": uid, **hints, **more}


CASES = (
    Case(
        Difference.NOTHING_FITS,
        life(
            nodes(9, 9),
            {"a": [app(5)], "b": [app(6, "c0"), app(4, "c1")]},
            [admit("a"), admit("b")],
            "single-numa-node",
            "pod",
        ),
        ("main 0", "c0 1, c1 0"),
        ("main 0", TOPOLOGY),
    ),
    Case(
        Difference.NOTHING_FITS,
        life(nodes(9), {"a": [app(9)], "b": [app(1)]}, [admit("a"), admit("b")], "restricted"),
        ("main 0", UNEXPECTED),
        ("main 0", TOPOLOGY),
    ),
    Case(
        Difference.GROUPS_STAY_WHOLE,
        life(nodes(9, 9, 9), {"a": [app(12)], "b": [app(2)]}, [admit("a"), admit("b", 1)]),
        ("main 0-1", "main 1"),
        ("main 0-1", "main 0-1"),
    ),
    Case(
        Difference.GROUPS_STAY_WHOLE,
        life(
            nodes(9, 9, 9),
            {"a": [app(12)], "b": [app(2), app(30, "large")], "c": [app(5)]},
            [admit("a"), admit("b", 1), {"remove": "b"}, admit("c")],
        ),
        ("main 0-1", UNEXPECTED, "main 1"),
        ("main 0-1", UNEXPECTED, "main 2"),
    ),
    Case(
        Difference.POD_IS_PLACED_AS_A_WHOLE,
        life(nodes(9, 9), {"a": [init(16), app(4)]}, [admit("a")], "restricted", "pod"),
        (UNEXPECTED,),
        ("init 0-1, main 0-1",),
    ),
    Case(
        Difference.ONE_LIST_PER_REQUEST,
        life(
            nodes(4, 4, 5, 5, 13, pages=(512,) * 5),
            {"a": [app(13)], "b": [app(10, pages=512)]},
            [admit("a"), admit("b")],
        ),
        ("main 4", "main 0-2"),
        ("main 4", "main 2-3"),
    ),
    Case(
        Difference.RETURNING_POD_IS_CHARGED,
        life(
            nodes(9),
            {"a": [init(5), app(1)], "b": [app(8)]},
            [admit("a"), {"remove": "a"}, admit("a"), admit("b")],
        ),
        ("init 0, main 0", "init 0, main 0", "main 0"),
        ("init 0, main 0", "init 0, main 0", UNEXPECTED),
    ),
    Case(
        Difference.CLOSEST_WITHOUT_MERGE,
        life(
            [
                {**node, "distances": row}
                for node, row in zip(
                    nodes(9, 9, 9), [[10, 21, 12], [21, 10, 21], [12, 21, 10]], strict=True
                )
            ],
            {"a": [app(12)]},
            [admit("a")],
            "none",
            closest=True,
        ),
        ("main 0-1",),
        ("main 0,2",),
    ),
    Case(
        Difference.EXACT_RELEASE,
        life(
            nodes(9, 9, 9),
            {"a": [app(12)], "b": [app(6)], "c": [app(2)]},
            [admit("a"), admit("b", 0, 1), {"remove": "b"}, admit("c", 1, 2)],
        ),
        ("main 0-1", "main 0-1", "main 0-1"),
        ("main 0-1", "main 0-1", "main 2"),
    ),
    Case(
        Difference.INIT_ONLY_RESOURCES,
        life(
            nodes(9, 9, pages=(0, 512)),
            {"a": [init(1, pages=256), app(1)]},
            [admit("a")],
            scope="pod",
        ),
        (UNEXPECTED,),
        ("init 1, main 1",),
    ),
    Case(
        Difference.MISSING_PAGE_SIZE,
        life(
            [nodes(9)[0], {**nodes(9, 9, pages=(512, 512))[1]}],
            {"a": [app(1, pages=256)]},
            [admit("a")],
        ),
        ("panic",),
        ("main 1",),
    ),
    Case(
        Difference.HINTS_ARE_DROPPED,
        life(nodes(9, 9), {"a": [app(9)], "b": [app(2)]}, [admit("a"), admit("b", 0)]),
        ("main 0", UNEXPECTED),
        ("main 0", "main 1"),
    ),
    Case(
        Difference.PREVIOUS_NODES,
        life(
            nodes(9, 9),
            {"a": [app(8)], "b": [app(8)]},
            [admit("a"), admit("b"), {"remove": "a"}, {"remove": "b"}, admit("b")],
        ),
        ("main 0", "main 1", "main 0"),
        ("main 0", "main 1", "main 1"),
    ),
    Case(
        Difference.ROOM_FOR_POD,
        life(
            nodes(9, 9),
            {"a": [app(4)], "b": [app(4, "c0"), app(6, "c1")]},
            [admit("a", 1), admit("b")],
        ),
        ("main 1", UNEXPECTED),
        ("main 1", "c0 1, c1 0"),
    ),
    Case(
        Difference.POD_BEFORE_CPUS,
        life(nodes(9, 9, 9), {"a": [app(2)]}, [admit("a", 0, 1, name="")], "restricted", "pod"),
        (TOPOLOGY,),
        ("main 0",),
    ),
    Case(
        Difference.ENDED_CONTAINERS,
        life(
            nodes(9),
            {"a": [init(6), app(2)], "b": [app(5)]},
            [admit("a"), {"start": "a"}, admit("b")],
        ),
        ("init 0, main 0", "main 0"),
        ("init 0, main 0", UNEXPECTED),
    ),
    Case(
        Difference.CPUS_FIRST,
        life(
            nodes(9, 9),
            {"a": [app(8)], "b": [app(4)]},
            [
                admit("a"),
                {
                    "admit": "b",
                    "hints": {"main": {"cpu": [[[0], True], [[1], True]]}},
                    "cpus": {"main": "0"},
                },
            ],
            "restricted",
        ),
        ("main 0", "main 1"),
        ("main 0", TOPOLOGY),
    ),
    Case(
        "cpus-on-all-nodes-are-no-preference",
        life(nodes(9, 9), {"a": [app(2)]}, [admit("a", 0, 1)], "restricted"),
        (TOPOLOGY,),
        ("main 0",),
    ),
    Case(
        "devices-without-a-common-node",
        life(
            nodes(9, 9, 9, 9),
            {"a": [app(2)]},
            [
                {
                    "admit": "a",
                    "hints": {"main": {"gpu": [[[0], True]], "nic": [[[1], True]]}},
                    "devices": {"main": [[0], [1]]},
                }
            ],
        ),
        ("main 0-3",),
        ("main 0-1",),
    ),
    Case(
        Difference.ONE_BY_ONE,
        life(
            nodes(9, 9),
            {"a": [app(5)], "b": [app(6, "c0"), app(6, "c1")]},
            [admit("a"), admit("b")],
        ),
        ("main 0", UNEXPECTED),
        ("main 0", f"{UNEXPECTED} after c0 1"),
    ),
    Case(
        Difference.ONE_BY_ONE,
        life(
            nodes(9, 9),
            {"a": [app(9)], "b": [app(6, "c0"), app(6, "c1")]},
            [admit("a"), admit("b", 0, 1, name="c1")],
            "single-numa-node",
        ),
        ("main 0", TOPOLOGY),
        ("main 0", UNEXPECTED),
    ),
    Case(
        "default-policy-is-best-effort",
        life(nodes(9, 9), {"a": [app(2)]}, [admit("a", 1)], "none"),
        ("main 0",),
        ("main 1",),
        settings={},
    ),
    Case(
        "nodes-without-cpus-are-excluded",
        life(
            [nodes(9)[0], {**nodes(9, 9)[1], "cpus": ""}],
            {"a": [app(9)], "b": [app(5)]},
            [admit("a"), admit("b")],
        ),
        ("main 0", "main 1"),
        ("main 0", UNEXPECTED),
    ),
    Case(
        "more-than-eight-nodes",
        life(nodes(*[9] * 9), {"a": [app(20)]}, [admit("a")]),
        ("not started: unsupported on machines with more than 8 NUMA Nodes",),
        ("main 0-2",),
    ),
    Case(
        "reserved-memory-is-derived",
        life([{**node, "reserved": 0} for node in nodes(9, 9)], {"a": [app(2)]}, [admit("a")]),
        ("not started: [memorymanager] you should specify the system reserved memory",),
        ("main 0",),
    ),
    Case(
        "hugepages-beyond-memory",
        life(
            [nodes(9)[0], {**nodes(1, 1)[1], "reserved": 0, "pages": {"2Mi": 1024}}],
            {"a": [app(500)]},
            [admit("a")],
        ),
        ("main 1",),
        (UNEXPECTED,),
    ),
    Case(
        "memory-is-resized",
        life(
            nodes(9, 9),
            {"a": [app(4)], "b": [app(5)]},
            [admit("a"), {"resize": "a", "memory": {"main": 6 * GI}}, admit("b")],
        ),
        ("main 0", "main 0", "main 0"),
        ("main 0", "main 0", "main 1"),
    ),
    Case(
        "pod-level-resources-are-placed",
        life(
            nodes(9, 9),
            {"a": [{"name": "c0", "kind": "app"}, {"name": "c1", "kind": "app"}], "b": [app(8)]},
            [admit("a"), admit("b")],
            limits={"a": {"memory": 4 * GI}},
        ),
        ("unpinned", "main 0"),
        ("c0 0, c1 0", "main 1"),
    ),
    Case(
        "state-file-is-not-needed",
        life(
            nodes(9, 9),
            {"a": [app(4)]},
            [admit("a"), {"restart": [nodes(9)[0], {**nodes(9, 9)[1], "memory": 9 * GI + 508}]}],
        ),
        (
            "main 0",
            f"not started: {STATE_DIFFERS}",
        ),
        ("main 0", "main 0"),
    ),
    Case(
        "hugepages-of-the-kernel-count",
        life(
            nodes(9, 9, pages=(512, 512)),
            {"a": [app(1, pages=256)]},
            [{**admit("a"), "used": {0: 512}}],
        ),
        ("main 0",),
        ("main 1",),
    ),
)
