"""Compares the plugin with the recorded answers, and names the difference behind each deviation."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from typing import Any, Protocol

from nri_numamem.memorymanager import State
from tests.kubelet_managers.answers import Answer, Blocks, KubeletState, states
from tests.kubelet_managers.differences import Difference
from tests.kubelet_managers.lives import Life
from tests.kubelet_managers.model import Model
from tests.kubelet_managers.replay import blocks_of_state, free_of
from tests.kubelet_managers.values import Outcome, Reusable, groups_of, mask_of

MOST_DIFFERENCES_AT_ONCE = 4


class Host(Protocol):
    """The plugin on the host of a life."""

    state: State
    previous: dict[str, dict[str, int]]

    def admit(self, uid: str, hints: Mapping[str, Any]) -> Outcome: ...

    def start(self, uid: str) -> None: ...

    def remove(self, uid: str) -> None: ...

    def groups(self) -> dict[int, tuple[Any, ...]]: ...


class UnlistedError(AssertionError):
    """The plugin deviates from the kubelet, and no known difference explains it."""


@dataclass
class Tally:
    """What a comparison found."""

    admissions: int = 0
    same: int = 0
    only_reason: int = 0
    kubelet_admits: int = 0
    plugin_admits: int = 0
    other_nodes: int = 0
    block_comparisons: int = 0
    """Comparisons of a pod's blocks."""
    differences: Counter[tuple[Difference, ...]] = field(default_factory=Counter)

    def __add__(self, other: "Tally") -> "Tally":
        return Tally(
            self.admissions + other.admissions,
            self.same + other.same,
            self.only_reason + other.only_reason,
            self.kubelet_admits + other.kubelet_admits,
            self.plugin_admits + other.plugin_admits,
            self.other_nodes + other.other_nodes,
            self.block_comparisons + other.block_comparisons,
            self.differences + other.differences,
        )

    def add(self, kubelet: Outcome, plugin: Outcome) -> None:
        self.admissions += 1
        if kubelet == plugin:
            self.same += 1
        elif kubelet.reason and plugin.reason:
            self.only_reason += 1
        elif plugin.reason:
            self.kubelet_admits += 1
        elif kubelet.reason:
            self.plugin_admits += 1
        else:
            self.other_nodes += 1

    @property
    def found(self) -> set[Difference]:
        """The differences that explained a deviation."""
        return {difference for names in self.differences for difference in names}

    def __str__(self) -> str:
        summary = (
            f"{self.admissions} admissions: {self.same} same, {self.only_reason} with another"
            f" reason, {self.kubelet_admits} refused by the plugin only, {self.plugin_admits} by"
            f" the kubelet only, {self.other_nodes} on other nodes or with other free memory;"
            f" {self.block_comparisons} comparisons of blocks"
        )
        lines = [summary]
        for names, count in sorted(self.differences.items(), key=lambda item: -item[1]):
            lines.append(f"{count:6} {' + '.join(names)}")
        return "\n".join(lines)


def compare(
    life: Life,
    answers: Sequence[Answer],
    host: Host,
    tally: Tally,
    differences: Sequence[Difference],
) -> None:
    """Play a life until the plugin and the kubelet have different states.

    Raises UnlistedError for a deviation that no set of the `differences` explains.
    """
    comparison = Comparison(Kubelet(life, answers), host, tally, differences)
    for step, answer, before, after in comparison.kubelet.steps():
        if "admit" in step:
            goes_on = comparison.admit(step, answer, before, after)
        else:
            goes_on = comparison.start_or_remove(step, before, after)
        if not goes_on:
            return


def outcome(answer: Answer, after: KubeletState, uid: str) -> Outcome:
    """Return the recorded outcome of an admission."""
    reason = answer.get("reason", "")
    nodes = {}
    if not reason:
        nodes = {name: blocks[0][0] for name, blocks in after.blocks.get(uid, {}).items()}
    return Outcome(reason, nodes, view(after))


def view(state: KubeletState) -> dict[int, tuple[Any, ...]]:
    """Return the groups and their free bytes."""
    return groups_of({n: (node.cells, node.free) for n, node in state.nodes.items()})


class Kubelet:
    """The kubelet of a life, step by step, with what its state does not show."""

    def __init__(self, life: Life, answers: Sequence[Answer]) -> None:
        self.life = life
        self.answers = answers
        self.reusable = Reusable()
        self.places_pods = life["policy"] != "none" and life["scope"] == "pod"
        self.allocatable: dict[int, dict[str, int]] = {}
        self._state = KubeletState()

    def is_active(self, uid: str) -> bool:
        """Return whether the kubelet admitted the pod."""
        return uid in self._state.blocks

    def steps(self) -> Iterator[tuple[dict[str, Any], Answer, KubeletState, KubeletState]]:
        """Yield step, answer, and the state before and after it."""
        found = states(self.answers)
        self._state = next(found)
        self.allocatable = {n: node.free for n, node in self._state.nodes.items()}
        for step, answer, after in zip(self.life["steps"], self.answers[1:], found, strict=False):
            yield step, answer, self._state, after
            if "admit" in step:
                self._note_reusable(step["admit"], answer, after)
            self._state = after

    def _note_reusable(self, uid: str, answer: Answer, after: KubeletState) -> None:
        blocks = {name: found[0][0] for name, found in after.blocks.get(uid, {}).items()}
        nodes = blocks or answer.get("held", {})
        for each in self.life["pods"][uid]["containers"]:
            if each["name"] in nodes:
                mask = mask_of(nodes[each["name"]])
                self.reusable.allocated(uid, each["kind"], mask, each["requests"])


@dataclass
class Comparison:
    """A life that is played on the plugin beside the kubelet; methods return whether it goes on."""

    kubelet: "Kubelet"
    host: Host
    tally: Tally
    differences: Sequence[Difference]

    def start_or_remove(
        self, step: Mapping[str, Any], before: KubeletState, after: KubeletState
    ) -> bool:
        if "remove" in step:
            self.host.remove(step["remove"])
        elif self.kubelet.is_active(step["start"]):
            self.host.start(step["start"])
        groups = self.host.groups()
        if groups == view(after):
            return True
        is_unchanged = "start" in step and groups == view(before)
        if not (is_unchanged and Difference.ENDED_CONTAINERS in self.differences):
            raise self._unlisted(step, f"{groups} instead of {view(after)}")
        self.tally.differences[Difference.ENDED_CONTAINERS,] += 1
        return False

    def admit(
        self,
        step: Mapping[str, Any],
        answer: Answer,
        before: KubeletState,
        after: KubeletState,
    ) -> bool:
        uid = step["admit"]
        our_free, previous = free_of(self.host.state), dict(self.host.previous.get(uid, {}))
        plugin = self.host.admit(uid, step.get("hints", {}))
        kubelet = outcome(answer, after, uid)
        self.tally.add(kubelet, plugin)
        if plugin != kubelet:
            models = Models(self.kubelet, before, step, our_free, previous)
            found = models.explain(kubelet, plugin, self.differences)
            if found is None:
                raise self._unlisted(step, f"{plugin} instead of {kubelet}")
            self.tally.differences[found] += 1
        if plugin.groups != kubelet.groups or plugin.nodes != kubelet.nodes:
            return False
        if not plugin.reason and not self.kubelet.places_pods:
            self._compare_blocks(step, after)
        return True

    def _compare_blocks(self, step: Mapping[str, Any], after: KubeletState) -> None:
        self.tally.block_comparisons += 1
        blocks: Blocks = blocks_of_state(self.host.state, step["admit"])
        want = after.blocks.get(step["admit"], {})
        if blocks != want:
            raise self._unlisted(step, f"{blocks} instead of {want}")

    def _unlisted(self, step: Mapping[str, Any], text: str) -> UnlistedError:
        return UnlistedError(f"life {self.kubelet.life['seed']}, {step}: {text}")


@dataclass
class Models:
    """The models of one admission."""

    kubelet: Kubelet
    before: KubeletState
    step: Mapping[str, Any]
    our_free: Mapping[int, Mapping[str, int]]
    previous: Mapping[str, int] = field(default_factory=dict)

    def outcome(self, differences: frozenset[Difference]) -> Outcome:
        """Return what the kubelet would do with these rules of the plugin."""
        model = Model(
            self.kubelet.life,
            self.before,
            self.kubelet.reusable,
            self.kubelet.allocatable,
            differences,
            our_free=self.our_free,
            previous=self.previous,
        )
        return model.admit(self.step["admit"], self.step.get("hints", {}))

    def explain(
        self, kubelet: Outcome, plugin: Outcome, differences: Sequence[Difference]
    ) -> tuple[Difference, ...] | None:
        """Return the fewest differences that turn the kubelet's outcome into the plugin's.

        None if there are none, or if the model does not give the kubelet's own outcome.
        """
        if self.outcome(frozenset()) != kubelet:
            return None
        possible = [difference for difference in differences if self.can_matter(difference)]
        for size in range(1, MOST_DIFFERENCES_AT_ONCE + 1):
            for found in combinations(possible, size):
                if self.outcome(frozenset(found)) == plugin:
                    return found
        return None

    def can_matter(self, difference: Difference) -> bool:
        """Return whether the settings and the pod allow this difference at all."""
        life, uid = self.kubelet.life, self.step["admit"]
        containers = life["pods"][uid]["containers"]
        has_init = any(container["kind"] == "init" for container in containers)
        has_pages = any(len(container["requests"]) > 1 for container in containers)
        has_hints = bool(self.step.get("hints"))
        in_pod_scope = self.kubelet.places_pods
        conditions: dict[Difference, bool] = {
            Difference.POD_IS_PLACED_AS_A_WHOLE: in_pod_scope,
            Difference.ONE_LIST_PER_REQUEST: has_pages,
            Difference.RETURNING_POD_IS_CHARGED: uid in self.kubelet.reusable.amounts,
            Difference.CLOSEST_WITHOUT_MERGE: bool(life["closest"]),
            Difference.INIT_ONLY_RESOURCES: in_pod_scope and has_pages,
            Difference.MISSING_PAGE_SIZE: has_pages,
            Difference.HINTS_ARE_DROPPED: has_hints and bool(life["policy"] == "best-effort"),
            Difference.PREVIOUS_NODES: bool(self.previous),
            Difference.POD_BEFORE_CPUS: in_pod_scope and has_hints,
            Difference.ENDED_CONTAINERS: has_init and not in_pod_scope,
            Difference.CPUS_FIRST: has_hints,
            Difference.ROOM_FOR_POD: not in_pod_scope and len(containers) > 1,
            Difference.ONE_BY_ONE: not in_pod_scope and (has_pages or len(containers) > 1),
        }
        return conditions.get(difference, True)
