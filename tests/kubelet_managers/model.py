"""A model of the kubelet's admission by brute force, whose flaws can be replaced one by one.

The model takes the recorded state of the kubelet before an admission and computes its outcome.
With no difference it gives the kubelet's answer. Each difference that is put in replaces one rule
of the kubelet by the plugin's. So a difference explains a deviation exactly if the model with it,
and not without it, gives the plugin's answer. The model shares no code with the package.

Masks are integers, amounts MiB. Source: kubelet memorymanager, policy_static.go; topologymanager,
policy.go, scope_container.go, scope_pod.go.
"""

import copy
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache
from itertools import combinations
from typing import Any, TypeAlias

from tests.kubelet_managers.answers import KubeletState
from tests.kubelet_managers.differences import Difference
from tests.kubelet_managers.lives import Life

Amounts: TypeAlias = Mapping[str, int]
Others: TypeAlias = Mapping[str, Any]
"""The hints of the other providers: resource -> [[node ids], preferred]."""
Hint: TypeAlias = tuple[int | None, bool]
HintList: TypeAlias = tuple[Hint, ...]

TOPOLOGY, UNEXPECTED, PANIC = "TopologyAffinityError", "UnexpectedAdmissionError", "panic"
POOL = ""
_MIXED = -2


@dataclass(frozen=True, slots=True)
class Outcome:
    """The outcome of an admission."""

    reason: str = ""
    """"" for an admitted pod."""
    nodes: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    """Container name -> nodes, for an admitted pod."""
    groups: Mapping[int, tuple[Any, ...]] = field(default_factory=dict)
    """Node id -> its group and the free bytes of the group's nodes; see groups_of()."""


class RefusedError(Exception):
    """A pod is refused; the text is the reason."""


@dataclass
class Node:
    count: int
    cells: int
    free: dict[str, int]
    allocatable: Amounts


@cache
def bits(mask: int) -> tuple[int, ...]:
    return tuple(n for n in range(mask.bit_length()) if mask >> n & 1)


def mask_of(ids: Iterable[int]) -> int:
    return sum(1 << n for n in ids)


def groups_of(
    nodes: Mapping[int, tuple[tuple[int, ...], Amounts]],
) -> dict[int, tuple[Any, ...]]:
    """Return node id -> (group, free bytes of the group), from (group, free bytes of the node).

    How the bytes of a group are spread over its nodes depends on the order of allocations and
    releases, and only the sum decides whether a request fits.
    """
    return {
        node_id: (
            cells,
            {name: sum(nodes[n][1].get(name, 0) for n in cells) for name in sorted(free)},
        )
        for node_id, (cells, free) in nodes.items()
    }


def all_masks(ids: Iterable[int]) -> list[int]:
    ids = list(ids)
    return [mask_of(c) for size in range(1, len(ids) + 1) for c in combinations(ids, size)]


class Reusable:
    """What init containers leave to their pod: initContainersReusableMemory of the kubelet."""

    def __init__(self) -> None:
        self.amounts: dict[str, dict[tuple[int, str], int]] = {}

    def copy(self) -> "Reusable":
        twin = Reusable()
        twin.amounts = {uid: dict(found) for uid, found in self.amounts.items()}
        return twin

    def get(self, uid: str, mask: int, resource: str) -> int:
        return self.amounts.get(uid, {}).get((mask, resource), 0)

    def allocated(self, uid: str, kind: str, mask: int, request: Amounts) -> None:
        """Note an allocation; only the entries of its pod remain."""
        found = self.amounts.get(uid, {})
        self.amounts = {uid: found}
        for resource, size in request.items():
            old = found.get((mask, resource), 0)
            new = max(old, size) if kind == "init" else max(0, old - size)
            if kind == "init" or old:
                found[mask, resource] = new


class Model:
    """The kubelet with the rules in `differences` replaced by the plugin's."""

    def __init__(
        self,
        life: Life,
        state: KubeletState,
        reusable: Reusable,
        allocatable: Mapping[int, Amounts],
        differences: frozenset[Difference] = frozenset(),
        *,
        our_free: Mapping[int, Amounts] | None = None,
        previous: Mapping[str, int] | None = None,
    ) -> None:
        self.life = life
        self.differences = differences
        self.reusable = reusable.copy()
        spread = {} if our_free is None or Difference.EXACT_RELEASE not in differences else our_free
        self.nodes = {
            n: Node(node.count, mask_of(node.cells), dict(spread.get(n, node.free)), allocatable[n])
            for n, node in state.nodes.items()
        }
        self.masks = all_masks(self.nodes)
        self.rows = {node["id"]: node["distances"] for node in life["nodes"]}
        self.previous = (previous or {}) if Difference.PREVIOUS_NODES in differences else {}
        self.preferred_mask = 0
        self.held: dict[str, tuple[str, int, dict[str, int]]] = {}
        """Container name -> kind, nodes, and MiB of each block, for the pod that is admitted."""
        self.charges: dict[tuple[str, str], dict[int, int]] = {}
        """Container name and resource -> node id -> MiB that the block was charged there."""

    def has(self, difference: Difference) -> bool:
        return difference in self.differences

    # Admission

    def admit(self, uid: str, hints: Mapping[str, Any]) -> Outcome:
        """Return the outcome of a pod's admission; the model is used up."""
        if self.has(Difference.RETURNING_POD_IS_CHARGED):
            self.reusable.amounts.pop(uid, None)
        containers = self.life["pods"][uid]["containers"]
        try:
            if self.life["policy"] != "none" and self.life["scope"] == "pod":
                nodes = self.admit_pod(uid, containers, hints.get(POOL, {}))
            else:
                nodes = {
                    each["name"]: self.admit_container(uid, each, hints.get(each["name"], {}))
                    for each in containers
                }
        except RefusedError as refused:
            self.release()
            return Outcome(str(refused), {}, self.groups())
        return Outcome("", {name: bits(mask) for name, mask in nodes.items()}, self.groups())

    def groups(self) -> dict[int, tuple[Any, ...]]:
        return groups_of({n: (bits(node.cells), node.free) for n, node in self.nodes.items()})

    def admit_container(self, uid: str, container: Mapping[str, Any], others: Others) -> int:
        name, request = container["name"], container["requests"]
        self.preferred_mask = self.previous.get(name, 0)
        if not self.has(Difference.ENDED_CONTAINERS):
            mask = self.choose_with(uid, request, others)
            self.allocate(uid, container, mask)
            return mask
        before = copy.deepcopy(self.accounting)
        self.release_excess(uid, request)
        mask = self.choose_with(uid, request, others)
        released, self.accounting = self.accounting, before
        if self.crosses(mask) or not self.has_room(uid, request, mask):
            self.accounting = released
        self.allocate(uid, container, mask)
        self.release_excess(uid, {}, live=name)
        return mask

    @property
    def accounting(self) -> tuple[Any, ...]:
        return self.nodes, self.held, self.charges, self.reusable

    @accounting.setter
    def accounting(self, value: tuple[Any, ...]) -> None:
        self.nodes, self.held, self.charges, self.reusable = value

    def has_room(self, uid: str, request: Amounts, mask: int) -> bool:
        return all(
            self.total(mask, r, free=True) + self.reusable.get(uid, mask, r) >= size
            for r, size in request.items()
        )

    def release_excess(self, uid: str, request: Amounts, live: str = "") -> None:
        """Release what init containers hold beyond the pod's limit, the oldest first.

        The request counts as live, and so does the init container `live`, which runs.
        """
        ended = {n for n, held in self.held.items() if held[0] == "init" and n != live}
        for resource, limit in self.pod_request(
            self.life["pods"][uid]["containers"], {Difference.INIT_ONLY_RESOURCES}
        ).items():
            used = request.get(resource, 0)
            used += sum(h[2].get(resource, 0) for n, h in self.held.items() if n not in ended)
            kept = sum(h[2].get(resource, 0) for n, h in self.held.items() if n in ended)
            excess = max(0, kept - max(0, limit - used))
            for name in [n for n in self.held if n in ended]:
                excess -= self.release_bytes(uid, name, resource, excess)

    def release_bytes(self, uid: str, name: str, resource: str, most: int) -> int:
        """Release bytes of a block; a container that holds nothing any more is forgotten."""
        _, mask, blocks = self.held[name]
        size = min(most, blocks.get(resource, 0))
        if not size:
            return 0
        blocks[resource] -= size
        found = self.reusable.amounts[uid]
        found[mask, resource] = max(0, found.get((mask, resource), 0) - size)
        charges = self.uncharge(name, resource, size)
        if self.has(Difference.EXACT_RELEASE):
            for n, released in charges.items():
                self.nodes[n].free[resource] += released
        else:
            self.release_block(mask, resource, size, count=0)
        if not any(blocks.values()):
            for empty in blocks:
                self.release_block(mask, empty, 0)
            del self.held[name]
        return size

    def choose_with(self, uid: str, request: Amounts, others: Others) -> int:
        """Return the nodes for a request; under best-effort perhaps without the others' hints."""
        try:
            return self.choose(uid, request, self.merged(uid, request, others))
        except RefusedError:
            retries = self.life["policy"] == "best-effort" and others
            if not (retries and self.has(Difference.HINTS_ARE_DROPPED)):
                raise
        beside = self.beside_groups(uid, request, others)
        if beside:
            return beside
        return self.choose(uid, request, self.merged(uid, request, {}))

    def beside_groups(self, uid: str, request: Amounts, others: Others) -> int:
        """Return a set inside the others' nodes, or the group that the hint has a part of."""
        own = self.calculate(uid, request)
        if not own:
            return 0
        mask, _ = self.merged(uid, request, others)
        if mask is None or not self.crosses(mask):
            return 0
        [[(ids, _)]] = others.values()
        inside = [found for found, _ in own if found is not None and not found & ~mask_of(ids)]
        beside = [found for found, _ in own if found is not None and not mask & ~found]
        return min(inside or beside, key=self.rank, default=0)

    def admit_pod(
        self, uid: str, containers: Iterable[Mapping[str, Any]], others: Others
    ) -> dict[str, int]:
        whole = self.has(Difference.POD_IS_PLACED_AS_A_WHOLE)
        request = self.pod_request(containers)
        if not whole:
            hint = self.merged(uid, request, others)
        else:
            self.preferred_mask = self.previous.get(POOL, 0)
            hint = (self.place_pod(uid, request, others), False)
        nodes = {}
        for each in containers:
            mask = self.choose(uid, each["requests"], hint)
            self.allocate(uid, each, mask)
            nodes[each["name"]] = mask
        return nodes

    def place_pod(self, uid: str, request: Amounts, others: Others) -> int:
        """Return the nodes of the pod's sum; without the CPUs' hints if they share a node."""
        if others and self.has(Difference.POD_BEFORE_CPUS):
            mask = self.without_cpus(uid, request, others)
            if mask:
                return mask
        try:
            return self.choose_with(uid, request, others)
        except RefusedError:
            if not (others and self.has(Difference.POD_BEFORE_CPUS)):
                raise
            mask = self.without_cpus(uid, request, others)
            if mask:
                return mask
            raise

    def without_cpus(self, uid: str, request: Amounts, others: Others) -> int:
        """Return the pod's nodes without the CPUs' hint, if the CPUs are on one of them; else 0."""
        [[(ids, _)]] = others.values()
        try:
            mask = self.choose(uid, request, self.merged(uid, request, {}))
        except RefusedError:
            return 0
        return mask if mask & mask_of(ids) else 0

    def pod_request(
        self,
        containers: Iterable[Mapping[str, Any]],
        also: Iterable[Difference] = (),
    ) -> Amounts:
        sidecars: dict[str, int] = {}
        inits: dict[str, int] = {}
        apps: dict[str, int] = {}
        for each in containers:
            for name, size in each["requests"].items():
                if each["kind"] == "init":
                    inits[name] = max(inits.get(name, 0), sidecars.get(name, 0) + size)
                else:
                    sums = apps if each["kind"] == "app" else sidecars
                    sums[name] = sums.get(name, 0) + size
        named = apps
        if self.has(Difference.INIT_ONLY_RESOURCES) or Difference.INIT_ONLY_RESOURCES in also:
            named = {**apps, **sidecars, **inits}
        return {n: max(apps.get(n, 0) + sidecars.get(n, 0), inits.get(n, 0)) for n in named}

    # Memory Manager

    def table(self, node: Node, resource: str, *, free: bool) -> int:
        found = node.free if free else node.allocatable
        if resource not in found and not self.has(Difference.MISSING_PAGE_SIZE):
            raise RefusedError(PANIC)
        return found.get(resource, 0)

    def total(self, mask: int, resource: str, *, free: bool) -> int:
        return sum(self.table(self.nodes[n], resource, free=free) for n in bits(mask))

    def crosses(self, mask: int) -> bool:
        """Return whether an allocation would mix two groups; the kubelet allows a single node."""
        nodes = [self.nodes[n] for n in bits(mask)]
        if len(nodes) == 1:
            is_grouped = len(bits(nodes[0].cells)) > 1
            return is_grouped and self.has(Difference.GROUPS_STAY_WHOLE)
        return any(n.count > 0 and (len(bits(n.cells)) == 1 or n.cells != mask) for n in nodes)

    def calculate(self, uid: str, request: Amounts) -> HintList:
        found: list[int] = []
        smallest = len(self.nodes)
        for mask in self.masks:
            size = len(bits(mask))
            free = {r: self.total(mask, r, free=True) for r in request}
            if any(self.total(mask, r, free=False) < request[r] for r in free):
                continue
            smallest = min(smallest, size)
            if size == 1 and len(bits(self.nodes[bits(mask)[0]].cells)) > 1:
                continue
            if size > 1 and self.crosses(mask):
                continue
            if all(free[r] + self.reusable.get(uid, mask, r) >= request[r] for r in free):
                found.append(mask)
        return tuple((mask, len(bits(mask)) == smallest) for mask in found)

    def rank(self, mask: int) -> tuple[int, ...]:
        """Return the order of sets in the Memory Manager: narrowest first, then lowest ids."""
        spread = self.spread(mask) if self.has(Difference.CLOSEST_WITHOUT_MERGE) else 0
        return (len(bits(mask)), mask != self.preferred_mask, spread, mask)

    def spread(self, mask: int) -> int:
        if not self.life["closest"]:
            return 0
        return sum(self.rows[a][b] for a in bits(mask) for b in bits(mask))

    def best(self, hints: Iterable[Hint]) -> Hint:
        return min(hints, key=lambda hint: (not hint[1], self.rank(hint[0] or 0)))

    def choose(self, uid: str, request: Amounts, hint: Hint) -> int:
        mask, preferred = hint
        if mask is None:
            found = self.calculate(uid, request)
            if not found or (preferred and not self.best(found)[1]):
                raise RefusedError(UNEXPECTED)
            mask, preferred = self.best(found)
            assert mask is not None
        free = {r: self.total(mask, r, free=True) for r in request}
        if any(free[r] < request[r] for r in free):
            wider = [h for h in self.calculate(uid, request) if h[0] is None or not mask & ~h[0]]
            if not wider or (preferred and not self.best(wider)[1]):
                raise RefusedError(UNEXPECTED)
            mask, _ = self.best(wider)
            assert mask is not None
        if self.crosses(mask):
            raise RefusedError(UNEXPECTED)
        return mask

    def allocate(self, uid: str, container: Mapping[str, Any], mask: int) -> None:
        request = container["requests"]
        for resource, size in request.items():
            left = max(0, size - self.reusable.get(uid, mask, resource))
            charges = self.charges[container["name"], resource] = {}
            for n in bits(mask):
                node = self.nodes[n]
                node.count += 1
                node.cells = mask
                taken = min(left, node.free.get(resource, 0))
                if taken:
                    node.free[resource] -= taken
                    charges[n] = taken
                left -= taken
            self.shrink_inits(mask, resource, size, charges)
        self.reusable.allocated(uid, container["kind"], mask, request)
        self.held[container["name"]] = (container["kind"], mask, dict(request))

    def shrink_inits(self, mask: int, resource: str, size: int, charges: dict[int, int]) -> None:
        """Take the bytes that a container reuses from the blocks of earlier init containers."""
        for name, (kind, nodes, blocks) in self.held.items():
            if kind == "init" and nodes == mask and resource in blocks:
                taken = min(size, blocks[resource])
                blocks[resource] -= taken
                size -= taken
                for n, moved in self.uncharge(name, resource, taken).items():
                    charges[n] = charges.get(n, 0) + moved

    def uncharge(self, name: str, resource: str, most: int) -> dict[int, int]:
        """Remove up to `most` from a block's charges, the lowest node first; return them."""
        removed = {}
        charges = self.charges[name, resource]
        for n in sorted(charges):
            removed[n] = min(most, charges[n])
            charges[n] -= removed[n]
            most -= removed[n]
        return removed

    def release(self) -> None:
        """Release what a refused pod got, from the lowest node of each block first."""
        for _, mask, blocks in self.held.values():
            for resource, size in blocks.items():
                self.release_block(mask, resource, size)

    def release_block(self, mask: int, resource: str, size: int, count: int = 1) -> None:
        """Release bytes; the kubelet takes them from the lowest node with reserved ones."""
        left = size
        for n in bits(mask):
            node = self.nodes[n]
            node.count -= count
            if not node.count:
                node.cells = 1 << n
            reserved = node.allocatable.get(resource, 0) - node.free.get(resource, 0)
            released = min(left, reserved)
            if released:
                node.free[resource] += released
            left -= released

    # Topology Manager

    def merged(self, uid: str, request: Amounts, others: Others) -> Hint:
        """Return the merged hint; raise RefusedError if the policy does not admit it."""
        policy = self.life["policy"]
        if policy == "none":
            return None, False
        lists: list[HintList] = [
            tuple((mask_of(ids), preferred) for ids, preferred in hints)
            for hints in others.values()
        ]
        own = self.calculate(uid, request)
        if not own and self.has(Difference.NOTHING_FITS):
            raise RefusedError(UNEXPECTED if policy == "best-effort" else TOPOLOGY)
        resources = 1 if self.has(Difference.ONE_LIST_PER_REQUEST) else len(request)
        lists += [own] * resources if own else [((None, True),)]
        hint = self.merge(lists)
        if not hint[1] and policy != "best-effort":
            raise RefusedError(TOPOLOGY)
        return hint

    def merge(self, lists: list[HintList]) -> Hint:
        everything = mask_of(self.nodes)
        is_single = self.life["policy"] == "single-numa-node"
        if is_single:
            lists = [
                tuple(h for h in found if h[1] and (h[0] is None or len(bits(h[0])) == 1))
                for found in lists
            ]
        sizes = [[len(bits(h[0])) for h in found if h[0] is not None] for found in lists]
        bound = max((min(found) for found in sizes if found), default=0)
        best: tuple[int, bool] | None = None
        for candidate in sorted(self.products(lists, everything)):
            best = self.better(best, candidate, bound)
        if best is None:
            best = (everything, False)
        if is_single and best[0] == everything:
            return None, best[1]
        return best

    def products(self, lists: Iterable[HintList], everything: int) -> set[tuple[int, bool]]:
        """Return all combinations of one hint per list as (mask, preferred)."""
        partial: set[tuple[int, int, bool]] = {(everything, 0, True)}
        for found in lists:
            following = set()
            for mask, first, preferred in partial:
                for own, wanted in found:
                    if own is None:
                        following.add((mask, first, preferred and wanted))
                        continue
                    same = own if first in (0, own) else _MIXED
                    following.add((mask & own, same, preferred and wanted))
            partial = following
        return {(mask, preferred and first != _MIXED) for mask, first, preferred in partial}

    def better(
        self, current: tuple[int, bool] | None, candidate: tuple[int, bool], bound: int
    ) -> tuple[int, bool] | None:
        if not candidate[0]:
            return current
        if current is None or current[1] != candidate[1]:
            return candidate if current is None or candidate[1] else current
        have, new = len(bits(current[0])), len(bits(candidate[0]))
        if current[1] or have > bound or (have == bound == new) or (new == have < bound):
            return min(current, candidate, key=lambda hint: self.rank_of_merge(hint[0]))
        if have == bound or new > bound or (new != bound and new < have):
            return current
        return candidate

    def rank_of_merge(self, mask: int) -> tuple[int, ...]:
        is_single = self.life["policy"] == "single-numa-node"
        spread = 0 if is_single else self.spread(mask)
        return (len(bits(mask)), mask != self.preferred_mask, spread, mask)
