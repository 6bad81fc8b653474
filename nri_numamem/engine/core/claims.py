"""Resource claims in the engine's state: which are charged, and which containers use them.

A claim is charged once, whichever containers use it (``memorymanager.claims``). It is released when
the kubelet has unprepared it and no container uses it.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from nri_numamem.memorymanager import State
from nri_numamem.memorymanager.claims import Claim, ClaimAmounts, adopt, sum_of
from nri_numamem.numa.quantity import sum_mappings


@dataclass(frozen=True, slots=True)
class ClaimUser:
    """A container that uses a claim."""

    container_id: str
    sandbox_id: str
    pod_uid: str
    namespace: str
    pod: str
    """Name of the pod."""
    container: str
    """Name of the container."""
    requests: frozenset[str]
    """The requests of the claim that it uses."""
    held_bytes: Mapping[str, int] = field(default_factory=dict)
    """Resource -> the part of its limit that counts for the claim."""


@dataclass(frozen=True, slots=True)
class ChargedClaim:
    """A claim in the accounting."""

    claim: Claim
    is_prepared: bool = True
    """Whether the kubelet wants it; otherwise it ends with its last container."""
    users: Mapping[str, ClaimUser] = field(default_factory=dict)
    """Container id -> container, until it ends."""

    def amounts_of(self, requests: Iterable[str]) -> ClaimAmounts:
        """Return the sum of some of its requests."""
        return sum_of(self.claim.requests[name] for name in requests)

    def left_bytes(self, requests: frozenset[str], but: str) -> dict[str, int]:
        """Return what containers with a limit leave of some requests: resource -> bytes.

        The container with the id `but` does not count.
        """
        left = sum_mappings(self.amounts_of(requests).values())
        for user in self.users.values():
            if user.container_id != but and not user.requests.isdisjoint(requests):
                for resource, size_bytes in user.held_bytes.items():
                    if resource in left:
                        left[resource] = max(0, left[resource] - size_bytes)
        return left

    def with_user(self, user: ClaimUser) -> "ChargedClaim":
        """Return the claim with a container."""
        return replace(self, users={**self.users, user.container_id: user})

    def without_users(self, container_ids: Iterable[str]) -> "ChargedClaim":
        """Return the claim without some containers."""
        ended = frozenset(container_ids)
        left = {each: user for each, user in self.users.items() if each not in ended}
        return replace(self, users=left)

    def without_container(self, sandbox_id: str, name: str) -> "ChargedClaim":
        """Return the claim without the containers of a sandbox that have this name."""
        wanted = (sandbox_id, name)
        found = [u for u in self.users.values() if (u.sandbox_id, u.container) == wanted]
        return self.without_users(user.container_id for user in found) if found else self


def charged(accounting: State, claims: Iterable[ChargedClaim]) -> State:
    """Return an accounting in which claims are charged that are in use; before anything else is."""
    for each in claims:
        accounting = adopt(accounting, each.claim.uid, each.claim.amounts)
    return accounting
