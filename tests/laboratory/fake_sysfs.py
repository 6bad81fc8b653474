"""Write a described machine as files of sysfs and procfs, as ``read_machine`` reads them.

An overlay is a mapping of path ("sys/devices/system/node/node0/meminfo") to the text of that file.
It is plain data, so a recorded machine is a small YAML file. Sandboxes, tests and
benchmarks use overlays. The content has the format that Linux writes.
"""

from collections.abc import Iterable, Mapping
from pathlib import Path, PurePosixPath

from nri_numamem.host.hugepages import SYSTEM_POOLS
from nri_numamem.host.topology import MEMORY_TIERS
from nri_numamem.numa.idset import NodeSet
from nri_numamem.numa.machine import Machine, NumaNode

_NODES = "sys/devices/system/node"


def write_overlay(overlay: Mapping[str, str], root: Path) -> None:
    """Write each text to its path below `root`; create directories and replace files.

    Raises ValueError for a path outside `root`, before it writes anything.
    """
    for name in overlay:
        path = PurePosixPath(name)
        if path.is_absolute() or ".." in path.parts or path == PurePosixPath():
            raise ValueError(f"{name!r} is not a path below the overlay's root; write sys/...")
    for name, text in overlay.items():
        file = root / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")


def overlay_of(machine: Machine) -> dict[str, str]:
    """Return the files from which ``read_machine(root / "sys", root / "proc")`` makes the machine.

    All hugepages are free. A node with any distances gets a distance file, with the kernel's
    defaults for missing distances. Raises ValueError for machines that no kernel can show: without
    nodes, or with a size that is not a multiple of 1,024 bytes.
    """
    if not machine.nodes:
        raise ValueError("a machine without NUMA nodes has no files; give it at least one")
    overlay = {
        f"{_NODES}/online": f"{machine.node_set}\n",
        f"{_NODES}/has_cpu": f"{_ids_of(node for node in machine.nodes if node.cpus)}\n",
        f"{_NODES}/has_memory": f"{_ids_of(node for node in machine.nodes if node.memory_bytes)}\n",
        f"{_NODES}/has_normal_memory": f"{_ids_of(filter(_has_normal_memory, machine.nodes))}\n",
        "proc/meminfo": _meminfo("", sum(_kb(node.memory_bytes) for node in machine.nodes)),
    }
    tiers = {node.memory_tier for node in machine.nodes if node.memory_tier is not None}
    for tier in sorted(tiers):
        nodes = _ids_of(node for node in machine.nodes if node.memory_tier == tier)
        overlay[f"sys/{MEMORY_TIERS}/memory_tier{tier}/nodelist"] = f"{nodes}\n"
    for node in machine.nodes:
        overlay |= _node_overlay(node, machine)
    sizes = {size for node in machine.nodes for size in node.hugepages}
    for size in sorted(sizes):
        pages = sum(node.hugepages.get(size, 0) for node in machine.nodes)
        pool = f"sys/{SYSTEM_POOLS}/hugepages-{_kb(size)}kB"
        overlay |= _pool_overlay(pool, pages)
        overlay[f"{pool}/resv_hugepages"] = "0\n"
    return overlay


def _node_overlay(node: NumaNode, machine: Machine) -> dict[str, str]:
    directory = f"{_NODES}/node{node.node_id}"
    overlay = {
        f"{directory}/meminfo": _meminfo(f"Node {node.node_id} ", _kb(node.memory_bytes)),
        f"{directory}/cpulist": f"{node.cpus}\n",
    }
    if node.distances:
        row = (str(node.distance_to(other.node_id)) for other in machine.nodes)
        overlay[f"{directory}/distance"] = f"{' '.join(row)}\n"
    for size, pages in node.hugepages.items():
        overlay |= _pool_overlay(f"{directory}/hugepages/hugepages-{_kb(size)}kB", pages)
    return overlay


def _pool_overlay(directory: str, pages: int) -> dict[str, str]:
    counts = {"nr_hugepages": pages, "free_hugepages": pages, "surplus_hugepages": 0}
    return {f"{directory}/{name}": f"{count}\n" for name, count in counts.items()}


def _meminfo(prefix: str, total_kb: int) -> str:
    lines = (("MemTotal:", total_kb), ("MemFree:", total_kb))
    return "".join(f"{prefix}{name:<15}{size_kb:>9} kB\n" for name, size_kb in lines)


def _kb(size_bytes: int) -> int:
    if size_bytes % 1024:
        raise ValueError(f"{size_bytes} bytes are not a multiple of 1024; the kernel counts in kB")
    return size_bytes // 1024


def _has_normal_memory(node: NumaNode) -> bool:
    return node.memory_bytes > 0 and not node.is_movable_only


def _ids_of(nodes: Iterable[NumaNode]) -> NodeSet:
    return NodeSet(node.node_id for node in nodes)
