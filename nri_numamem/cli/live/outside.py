"""Hugepages that are used outside of pods on a host: how many, where, and by what."""

from collections.abc import Iterator
from dataclasses import dataclass, field

from nri_numamem.cli.live.facts import Facts
from nri_numamem.engine.core.providers import format_nodes
from nri_numamem.host.hugepage_users import HugepageUser, HugepageUsers
from nri_numamem.memorymanager import PoolUse, non_pod_hugepages
from nri_numamem.numa import NodeSet, hugepages_page_size, humanize_bytes
from nri_numamem.numa.quantity import HUGEPAGES_PREFIX

# Of processes and files in a text.
_SHOWN = 3


@dataclass(frozen=True, slots=True)
class OutsideUse:
    """Hugepages of one size that are used outside of pods, on a node or on a group of nodes."""

    nodes: NodeSet
    """Empty for pages that are reserved and not in use yet: their nodes are unknown."""
    resource: str
    size_bytes: int
    """In the accounting these bytes are free."""
    pool_bytes: int
    """All pages of the pools there."""
    users: HugepageUsers = field(default_factory=HugepageUsers)
    """Those with such pages there, and those whose nodes are unknown."""

    @property
    def where(self) -> str:
        """Return "node 0", "nodes 0-1", or "all nodes" if the nodes are unknown."""
        return format_nodes(self.nodes) if self.nodes else "all nodes"

    @property
    def verb(self) -> str:
        """Return "used" or "reserved"."""
        return "used" if self.nodes else "reserved"

    @property
    def known_users(self) -> str:
        """Return what uses the pages, as far as that is known."""
        found = [self._process(one) for one in self.users.processes]
        found += [
            f"file {file.path} ({self.pages(file.size_bytes)}, nodes unknown)"
            for file in self.users.files
        ]
        if len(found) > _SHOWN:
            found[_SHOWN:] = [f"{len(found) - _SHOWN} more"]
        return ", ".join(found)

    @property
    def text(self) -> str:
        """Return place, amount and users, and where to look for users that are unknown."""
        count = self._count(self.size_bytes)
        amount = f"{count} of {self.pages(self.pool_bytes)} {'is' if count == 1 else 'are'}"
        text = f"{self.where}: {amount} {self.verb} outside of pods"
        if self.known_users:
            text += f": {self.known_users}"
        if self._unknown_bytes:
            text += (
                f"; no process is known for {self.pages(self._unknown_bytes)}: look at pods that "
                "are not managed, and at shared memory (ipcs -m)"
            )
        return text

    def pages(self, size_bytes: int) -> str:
        """Return "4 1Gi pages"."""
        count = self._count(size_bytes)
        return f"{count} {self.resource.removeprefix(HUGEPAGES_PREFIX)} page{'s' * (count != 1)}"

    def _count(self, size_bytes: int) -> int:
        return size_bytes // hugepages_page_size(self.resource)

    @property
    def _unknown_bytes(self) -> int:
        """The bytes whose users are unknown; 0 if a known user may have them."""
        if not self.nodes or self.users.files or any(u.pages is None for u in self.users.processes):
            return 0
        known = sum(_bytes_on(u, self.nodes, self.resource) for u in self.users.processes)
        return max(0, self.size_bytes - known)

    def _process(self, user: HugepageUser) -> str:
        amount = f"{humanize_bytes(user.size_bytes)} of hugepages, nodes unknown"
        if user.pages is not None:
            amount = self.pages(_bytes_on(user, self.nodes, self.resource))
        return f"{user.name} (pid {user.pid}, {amount})"


def outside_uses(facts: Facts) -> Iterator[OutsideUse]:
    """Yield the use outside of pods by nodes and size; nothing without a state and pools."""
    use = facts.pool_use
    if facts.state is None or use is None:
        return
    found = non_pod_hugepages(facts.state.accounting, use)
    for nodes, sizes in found.used.items():
        for resource, size_bytes in sizes.items():
            users = _users_on(facts.hugepage_users, nodes, resource)
            yield OutsideUse(nodes, resource, size_bytes, _total(use, nodes, resource), users)
    for resource, size_bytes in found.rsvd.items():
        pool_bytes = _total(use, NodeSet(use.pools), resource)
        yield OutsideUse(NodeSet(), resource, size_bytes, pool_bytes)


def use_document(use: OutsideUse) -> dict[str, object]:
    """Return a use for ``--output json``."""
    return {
        "nodes": list(use.nodes),
        "resource": use.resource,
        "bytes": use.size_bytes,
        "poolBytes": use.pool_bytes,
        **users_document(use.users),
    }


def users_document(users: HugepageUsers) -> dict[str, object]:
    """Return processes and files for ``--output json``."""
    return {
        "processes": [
            {
                "pid": user.pid,
                "name": user.name,
                "bytes": user.size_bytes,
                "nodes": None
                if user.pages is None
                else {str(node): dict(sizes) for node, sizes in user.pages.items()},
            }
            for user in users.processes
        ],
        "files": [
            {"path": file.path, "resource": file.resource, "bytes": file.size_bytes}
            for file in users.files
        ],
    }


def _users_on(users: HugepageUsers, nodes: NodeSet, resource: str) -> HugepageUsers:
    return HugepageUsers(
        tuple(u for u in users.processes if u.pages is None or _bytes_on(u, nodes, resource)),
        tuple(file for file in users.files if file.resource == resource),
    )


def _bytes_on(user: HugepageUser, nodes: NodeSet, resource: str) -> int:
    pages = user.pages or {}
    return sum(pages.get(node_id, {}).get(resource, 0) for node_id in nodes)


def _total(use: PoolUse, nodes: NodeSet, resource: str) -> int:
    pools = (use.pools.get(node_id, {}).get(resource) for node_id in nodes)
    return sum(pool.used + pool.free for pool in pools if pool is not None)
