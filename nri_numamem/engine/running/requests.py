"""The requests of the containers that a Synchronize finds running on their nodes.

A request depends on sums over the containers of its sandbox. A pod can have thousands of
containers, so the sums are computed once per sandbox, and each recorded container changes them. The
containers of a sandbox follow each other.
"""

from itertools import chain

from nri_numamem.engine.core.events import Container, PodSandbox
from nri_numamem.engine.core.request import (
    Request,
    blocks_in_sandbox,
    request_of,
    within_pod_limit,
)
from nri_numamem.engine.core.state import EngineState, Holder
from nri_numamem.memorymanager import Block
from nri_numamem.memorymanager.blocks import sum_blocks
from nri_numamem.memorymanager.holder import HolderKind, HolderName
from nri_numamem.numa import hugepages_resource

_Blocks = dict[HolderName, tuple[Block, ...]]
"""Container name -> blocks."""


class RunningRequests:
    """The requests of one Synchronize.

    `known` is the state before, `old` the same without the containers that had no names.
    """

    def __init__(self, known: EngineState, old: EngineState) -> None:
        self._known = known
        self._old = old
        self._sandbox: _Sandbox | None = None

    def request(self, new: EngineState, pod: PodSandbox, container: Container) -> Request | None:
        """Return the request of a container; None if it is unknown.

        `new` is the state that the Synchronize builds. Each of its changes is passed to `recorded`,
        or `forget` is called.
        """
        holder = self._known.holder(container.container_id)
        shared = None if holder is None else _request_that_shares(self._known, holder)
        if shared is not None:
            return shared
        if pod.hugepage_limits:
            others = self._sums_of(new, pod).hugepages_of_others(self._old, container)
            request = request_of(pod, container, others)
        else:
            request = request_of(pod, container, {})
        if request is None or holder is not None or not pod.memory_limit_bytes:
            return request
        sandbox = self._sums_of(new, pod)
        live = sandbox.live.without(container.name)
        return within_pod_limit(pod, request, live, is_shared=bool(sandbox.sharing))

    def recorded(self, holder: Holder, blocks: tuple[Block, ...]) -> None:
        """Change the sums: the new state has a container with these blocks."""
        if self._sandbox is not None and self._sandbox.pod.sandbox_id == holder.sandbox_id:
            self._sandbox.record(holder, blocks)

    def forget(self) -> None:
        """Compute the sums anew at the next request."""
        self._sandbox = None

    def _sums_of(self, new: EngineState, pod: PodSandbox) -> "_Sandbox":
        if self._sandbox is None or self._sandbox.pod.sandbox_id != pod.sandbox_id:
            self._sandbox = _Sandbox(self._old, new, pod)
        return self._sandbox


class _Sandbox:
    """The sums of one sandbox; `live` are those of its containers in the new state."""

    def __init__(self, old: EngineState, new: EngineState, pod: PodSandbox) -> None:
        self.pod = pod
        recorded = blocks_in_sandbox(new, pod, with_ended=True)
        self.live = _Sum(recorded)
        names = new.accounting.assignments.get(pod.uid, {})
        self.sharing = {name for name in names if new.holders[pod.uid, name].is_shared}
        """Names of the pod's containers that share its memory, in all of its sandboxes."""
        self._before: _Blocks = {}
        self._with: dict[bool, _Sum] = {}
        """With or without those that had ended before -> sum of the blocks that the containers have
        in the new state, or else had in the old one."""
        if pod.hugepage_limits:
            self._before = _containers_of(old, pod, with_ended=True)
            live_before = _containers_of(old, pod, with_ended=False)
            self._with[True] = _Sum(self._before | recorded)
            self._with[False] = _Sum(live_before | recorded)

    def record(self, holder: Holder, blocks: tuple[Block, ...]) -> None:
        """Change the sums, see RunningRequests.recorded."""
        name = holder.key[1]
        self.live.replace(name, blocks)
        for total in self._with.values():
            total.replace(name, blocks)
        if holder.is_shared:
            self.sharing.add(name)
        else:
            self.sharing.discard(name)

    def hugepages_of_others(self, old: EngineState, container: Container) -> dict[str, int]:
        """Return what of the pod's sum of hugepages a container does not get, by resource name.

        The container keeps what it had in `old`. It also gets what no other container has: none
        that the new state has already, and none of `old`. So a Synchronize does not move the sum.
        """
        name, own = container.name, dict[str, int]()
        is_known = old.keys.get(container.container_id) == (self.pod.uid, name)
        if is_known:
            own = sum_blocks(self._before.get(name, ()))
        assigned = self._with[is_known].without(name)
        for size, limit in self.pod.hugepage_limits.items():
            resource = hugepages_resource(size)
            most = limit - own.get(resource, 0)
            assigned[resource] = max(0, min(assigned.get(resource, 0), most))
        return assigned


class _Sum:
    """The sum of the blocks of several containers, which changes with each of them."""

    def __init__(self, blocks: _Blocks) -> None:
        self._blocks = dict(blocks)
        self._bytes = sum_blocks(chain.from_iterable(blocks.values()))

    def replace(self, name: HolderName, blocks: tuple[Block, ...]) -> None:
        """Replace the blocks of a container, which may have none yet."""
        for block in self._blocks.get(name, ()):
            self._bytes[block.type] -= block.size
        for block in blocks:
            self._bytes[block.type] = self._bytes.get(block.type, 0) + block.size
        self._blocks[name] = blocks

    def without(self, name: HolderName) -> dict[str, int]:
        """Return the sum without a container, by resource name; empty if there is no other one."""
        if not self._blocks or (len(self._blocks) == 1 and name in self._blocks):
            return {}
        others = dict(self._bytes)
        for block in self._blocks.get(name, ()):
            others[block.type] -= block.size
        return others


def _containers_of(state: EngineState, pod: PodSandbox, *, with_ended: bool) -> _Blocks:
    blocks = blocks_in_sandbox(state, pod, with_ended=with_ended)
    blocks.pop(HolderKind.POD, None)
    return blocks


def _request_that_shares(known: EngineState, holder: Holder) -> Request | None:
    """Return the request of a running container that shares its pod's memory in `known`.

    It keeps its share. None for another container.
    """
    if holder.ended or not holder.is_shared:
        return None
    blocks = known.blocks(holder.key) or ()
    return Request({block.type: block.size for block in blocks}, is_shared=True)
