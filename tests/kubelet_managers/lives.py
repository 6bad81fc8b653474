"""Random lives of a host, from seeds: a machine, settings, pods, and their starts and ends.

A life is a dictionary of JSON values that the Go program in `go/` plays on the kubelet's managers.
Amounts are MiB; a hint is [[node ids], preferred].

    nodes     [{id, memory, reserved, pages: {page size: number}, distances: [...]}]
    policy    of the Topology Manager; `scope` is container or pod; `closest` is its option
    pods      uid -> {containers: [{name, kind, requests: {resource: MiB}}]}; all are Guaranteed
    steps     {admit: uid, hints: {container or "" for the pod: {resource: [hint]}}}
              {start: uid} when the containers run, one after the other; {remove: uid} at the end

The hints are those of a model of the CPU manager. `providers` states which lives have them: "none";
"one": each container has its CPUs already, hence one hint, as NRI shows it; "lists": the
CPU manager offers several sets of nodes, as in the kubelet.
"""

from itertools import combinations
from random import Random
from typing import Any, TypeAlias

Life: TypeAlias = dict[str, Any]

LIVES = 1000
GI = 1024
POLICIES = ("none", "best-effort", "restricted", "single-numa-node")
_NODE_COUNTS = (2, 2, 3, 4, 4, 5, 6, 8)
# Several lists of all sets of eight nodes take the kubelet seconds to merge.
_MOST_NODES_WITH_TWO_POOLS = 5
_PAGE_MIB = {"2Mi": 2, "1Gi": GI}


def random_life(seed: int) -> Life:
    """Return the life of a seed."""
    random = Random(seed)
    count = random.choice(_NODE_COUNTS)
    providers = random.choice(("none", "none", "one", "lists"))
    nodes = _machine(random, count, providers)
    life: Life = {
        "seed": seed,
        "providers": providers,
        "nodes": nodes,
        "policy": random.choice(POLICIES),
        "scope": random.choice(("container", "pod")),
        "closest": random.random() < 0.5,
        "pods": {},
        "steps": [],
    }
    _add_steps(random, life)
    return life


def _machine(random: Random, count: int, providers: str) -> list[dict[str, Any]]:
    sizes = random.choice(((), (), ("2Mi",), ("1Gi",), ("2Mi", "1Gi")))
    if count == 8 or (count > _MOST_NODES_WITH_TWO_POOLS and providers != "none"):
        sizes = sizes[:1]
    usual = random.choice((8, 9, 10, 12))
    is_symmetric = random.random() < 0.3
    # One node that is much larger than the others makes hints of several nodes not preferred.
    large = random.randrange(count) if count > 4 and random.random() < 0.4 else None
    rows = _distances(random, count)
    lacks_pool = random.randrange(count) if random.random() < 0.03 else None
    nodes = []
    for node_id in range(count):
        pages = {size: _pool(random, size) for size in sizes if node_id != lacks_pool}
        memory = (usual if is_symmetric else random.randint(5, 14)) * GI
        memory += 0 if is_symmetric else random.randint(0, 900)
        if large is not None:
            memory = 14 * GI if node_id == large else random.randint(4, 7) * GI
        reserved = 512 if node_id == 0 or random.random() < 0.4 else 0
        pooled = sum(number * _PAGE_MIB[size] for size, number in pages.items())
        nodes.append(
            {
                "id": node_id,
                "memory": memory + reserved + pooled,
                "reserved": reserved,
                "pages": pages,
                "distances": rows[node_id],
            }
        )
    return nodes


def _pool(random: Random, size: str) -> int:
    return random.choice((0, 256, 512, 1024)) if size == "2Mi" else random.choice((0, 1, 2, 3))


def _distances(random: Random, count: int) -> list[list[int]]:
    """Return a symmetric matrix: two nodes per socket, or any distances."""
    rows = [[10] * count for _ in range(count)]
    has_sockets = random.random() < 0.5
    for a, b in combinations(range(count), 2):
        far = 12 if a // 2 == b // 2 else 21
        rows[a][b] = rows[b][a] = far if has_sockets else random.choice((11, 12, 20, 21))
    return rows


def _add_steps(random: Random, life: Life) -> None:
    """Let pods come and go; some return under their uid, and some start later than others."""
    starts_at_once = random.choice((True, False, None))
    active: list[str] = []
    ended: list[str] = []
    steps: list[dict[str, Any]] = life["steps"]
    for _ in range(random.randint(10, 18)):
        if active and random.random() < 0.3:
            uid = active.pop(random.randrange(len(active)))
            ended.append(uid)
            steps.append({"remove": uid})
            continue
        if ended and random.random() < 0.4:
            uid = ended.pop(random.randrange(len(ended)))
        else:
            uid = f"p{len(life['pods'])}"
            life["pods"][uid] = {"containers": _containers(random, life["nodes"])}
        active.append(uid)
        steps.append({"admit": uid, **_hints(random, life, uid)})
        if starts_at_once:
            steps.append({"start": uid})
        elif starts_at_once is None and random.random() < 0.4:
            steps.append({"start": random.choice(active)})


def _containers(random: Random, nodes: list[dict[str, Any]]) -> list[dict[str, Any]]:
    kinds = ["init"] * random.choice((0, 0, 0, 0, 1, 2))
    for _ in range(random.choice((0, 0, 0, 0, 0, 1))):
        kinds.insert(random.randint(0, len(kinds)), "restartable-init")
    kinds += ["app"] * random.choice((1, 1, 1, 2, 3))
    sizes = sorted(nodes[0]["pages"] | nodes[-1]["pages"])
    large = random.random() < 0.25
    return [
        {
            "name": f"c{index}",
            "kind": kind,
            "requests": _requests(random, nodes, sizes, large=large),
        }
        for index, kind in enumerate(kinds)
    ]


def _requests(
    random: Random, nodes: list[dict[str, Any]], sizes: list[str], *, large: bool
) -> dict[str, int]:
    total = sum(node["memory"] for node in nodes) // GI
    most = max(12, total * 2 // 3) if large else random.choice((3, 6, 9))
    requests = {"memory": random.randint(1, most) * GI + random.choice((0, 0, 256))}
    for size in sizes:
        if random.random() < 0.4:
            least, most = (128, 1024) if size == "2Mi" else (GI, 3 * GI)
            requests[f"hugepages-{size}"] = random.choice((least, 2 * least, most))
    return requests


def _hints(random: Random, life: Life, uid: str) -> dict[str, Any]:
    """Return the hints of the CPU manager for a pod and for each of its containers."""
    if life["providers"] == "none" or random.random() < 0.3:
        return {}
    ids = [node["id"] for node in life["nodes"]]
    names = [container["name"] for container in life["pods"][uid]["containers"]]
    if life["scope"] == "pod":
        # The CPUs of all containers are on the nodes of the pod's hint.
        return {"hints": {"": {"cpu": _cpu_hints(random, life["providers"], ids)}}}
    return {"hints": {name: {"cpu": _cpu_hints(random, life["providers"], ids)} for name in names}}


def _cpu_hints(random: Random, providers: str, ids: list[int]) -> list[list[Any]]:
    sets = [list(found) for size in (1, 2) if size < len(ids) for found in combinations(ids, size)]
    if providers == "one":
        singles = [found for found in sets if len(found) == 1]
        return [[random.choice(singles if random.random() < 0.7 else sets), True]]
    chosen = random.sample(sets, random.randint(1, min(6, len(sets))))
    chosen.sort(key=lambda found: (len(found), found))
    return [[found, len(found) == len(chosen[0])] for found in chosen]
