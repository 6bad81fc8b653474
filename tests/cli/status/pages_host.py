"""Adds resident memory of all kinds to the host of the tests."""

from pathlib import Path

from tests.cli.live.live_host import GI, LiveHost

BURSTABLE = "b0000000-0000-4000-8000-000000000001"


def write_pages(directory: Path, **kinds: dict[int, int]) -> None:
    """Write `memory.numa_stat` of a container: name of a line -> node -> bytes."""
    lines = [
        f"{name}{''.join(f' N{node}={size}' for node, size in sizes.items())}\n"
        for name, sizes in kinds.items()
    ]
    (directory / "memory.numa_stat").write_text("".join(lines))


def add_pages(host: LiveHost) -> None:
    """Let dpdk have hugepages, shared memory on a remote node, and page cache."""
    container = host.engine.state.holders["upf-7", "dpdk"].container_id
    directory = host.directory("upf-7", container)
    write_pages(
        directory,
        anon={0: 0, 1: 6 * GI},
        file={0: 3 * GI, 1: GI},
        shmem={0: GI},
    )
    (directory / "hugetlb.1GB.numa_stat").write_text(f"total={2 * GI} N0=0 N1={2 * GI}\n")


def add_burstable(host: LiveHost, mems: str = "", limit: str = "max") -> Path:
    """Add a Burstable pod with a name and a container on nodes 0 and 3; return its cgroup."""
    directory = host.cgroups / "kubepods/burstable" / f"pod{BURSTABLE}" / ("d" * 64)
    directory.mkdir(parents=True)
    (directory / "cgroup.events").write_text("populated 1\n")
    (directory / "cpuset.mems").write_text(f"{mems}\n")
    (directory / "cpuset.mems.effective").write_text("0-3\n")
    (directory / "memory.max").write_text(f"{limit}\n")
    write_pages(directory, anon={0: GI, 3: GI}, file={3: GI})
    logs = host.root / "var/log/pods" / f"shop_redis-0_{BURSTABLE}"
    logs.mkdir(parents=True)
    return directory
