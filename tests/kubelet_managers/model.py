"""A model of the kubelet's admission by brute force, whose flaws can be replaced one by one.

The model takes the recorded state of the kubelet before an admission and computes its outcome.
With no difference it gives the kubelet's answer. Each difference that is put in replaces one rule
of the kubelet by the plugin's. So a difference explains a deviation exactly if the model with it,
and not without it, gives the plugin's answer. The model shares no code with the package.

Source: kubelet topologymanager, scope_container.go, scope_pod.go.
"""

import copy
from collections.abc import Iterable, Mapping
from typing import Any

from tests.kubelet_managers.differences import Difference
from tests.kubelet_managers.memory_model import MemoryModel
from tests.kubelet_managers.merge import merge
from tests.kubelet_managers.values import (
    POOL,
    TOPOLOGY,
    UNEXPECTED,
    Amounts,
    Hint,
    HintList,
    Others,
    Outcome,
    RefusedError,
    bits,
    mask_of,
)


def first_hints(others: Others) -> Others:
    """Return the first hint of each resource: the CPUs that a container has when NRI shows it."""
    return {resource: found[:1] for resource, found in others.items()}


def mask_of_cpus(others: Others) -> int:
    """Return the nodes of a container's CPUs."""
    return mask_of(ids for [(nodes, _), *_] in others.values() for ids in nodes)


class Model(MemoryModel):
    """The kubelet with the rules in `differences` replaced by the plugin's."""

    def admit(self, uid: str, hints: Mapping[str, Any]) -> Outcome:
        """Return the outcome of a pod's admission; the model is used up."""
        if self.has(Difference.RETURNING_POD_IS_CHARGED):
            self.reusable.amounts.pop(uid, None)
        if self.has(Difference.CPUS_FIRST):
            hints = {name: first_hints(others) for name, others in hints.items()}
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

    def admit_container(self, uid: str, container: Mapping[str, Any], others: Others) -> int:
        name, request = container["name"], container["requests"]
        self.preferred_mask = self.previous.get(name, 0)
        begins = self.has(Difference.ONE_BY_ONE) and not self.held
        if not self.has(Difference.ENDED_CONTAINERS):
            mask = self.choose_for_pod(uid, container, others)
            if begins:
                self.check_pod(uid, request)
            self.allocate(uid, container, mask)
            return mask
        before = copy.deepcopy(self.accounting)
        self.release_excess(uid, request)
        mask = self.choose_for_pod(uid, container, others)
        if begins:
            self.check_pod(uid, request)
        released, self.accounting = self.accounting, before
        if self.crosses(mask) or not self.has_room(uid, request, mask):
            self.accounting = released
        self.allocate(uid, container, mask)
        self.release_excess(uid, {}, live=name)
        return mask

    def choose_for_pod(self, uid: str, container: Mapping[str, Any], others: Others) -> int:
        """Return the nodes of a container; of equal ones, one that leaves room for its pod."""
        request = container["requests"]
        mask = self.choose_with(uid, request, others)
        is_decided = len(bits(mask)) > 1 or mask == self.preferred_mask
        if is_decided or not self.has(Difference.ROOM_FOR_POD):
            return mask
        live = [h[2] for h in self.held.values() if h[0] != "init"]
        rest = {
            resource: size - sum(amounts.get(resource, 0) for amounts in (request, *live))
            for resource, size in self.pod_limit(uid).items()
        }
        rest = {resource: size for resource, size in rest.items() if size > 0}
        if not rest or self.nodes_with_room(uid, rest) != {mask}:
            return mask
        before = copy.deepcopy(self.accounting)
        self.allocate(uid, {**container, "kind": "app"}, mask)  # it runs
        remaining, self.accounting = self.nodes_with_room(uid, rest), before
        return mask if remaining else self.next_equal(uid, request, others, mask)

    def next_equal(self, uid: str, request: Amounts, others: Others, mask: int) -> int:
        """Return the first other node that is as good for a request as `mask`, or `mask`."""
        before = self.preferred_mask
        for other in (1 << n for n in self.nodes if 1 << n != mask):
            self.preferred_mask = other
            is_closer = self.spread(mask) != self.spread(other)
            if not is_closer and self.choose_with(uid, request, others) == other:
                mask = other
                break
        self.preferred_mask = before
        return mask

    def nodes_with_room(self, uid: str, rest: Amounts) -> set[int]:
        """Return the single nodes that hold the rest of a pod."""
        differences = self.differences
        self.differences |= {Difference.MISSING_PAGE_SIZE}  # this rule is the plugin's alone
        found = {mask for mask, _ in self.calculate(uid, rest) if mask and len(bits(mask)) == 1}
        self.differences = differences
        return found

    def check_pod(self, uid: str, request: Amounts) -> None:
        """Refuse the first container of a pod whose limit exceeds what all nodes have free."""
        limit = self.pod_limit(uid)
        if limit["memory"] <= request["memory"] and len(limit) == 1:
            return
        for resource, size in limit.items():
            free = sum(node.free.get(resource, 0) for node in self.nodes.values())
            if max(size, request.get(resource, 0)) > free:
                raise RefusedError(UNEXPECTED)

    def pod_limit(self, uid: str) -> Amounts:
        containers = self.life["pods"][uid]["containers"]
        return self.pod_request(containers, {Difference.INIT_ONLY_RESOURCES})

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
        for resource, limit in self.pod_limit(uid).items():
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
        cpus = mask_of_cpus(others)
        inside = [found for found, _ in own if found is not None and not found & ~cpus]
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
        try:
            mask = self.choose(uid, request, self.merged(uid, request, {}))
        except RefusedError:
            return 0
        return mask if mask & mask_of_cpus(others) else 0

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
        is_single = policy == "single-numa-node"

        def rank(mask: int) -> tuple[int, ...]:
            spread = 0 if is_single else self.spread(mask)
            return (len(bits(mask)), mask != self.preferred_mask, spread, mask)

        hint = merge(lists, mask_of(self.nodes), rank, is_single=is_single)
        if not hint[1] and policy != "best-effort":
            raise RefusedError(TOPOLOGY)
        return hint
