"""Topology: the recorded trees, missing files, and files that no kernel writes."""

from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from nri_numamem.host.sysfs import MachineError
from nri_numamem.host.topology import read_available, read_isolated_cpus, read_machine
from nri_numamem.numa.idset import CpuSet
from nri_numamem.numa.machine import Machine, NumaNode
from tests.laboratory.fake_sysfs import overlay_of

Plant = Callable[[Mapping[str, str]], Path]
Tree = Callable[[str], Path]

KIB = 1024
PAGE_2M = 2 << 20
PAGE_1G = 1 << 30
NODE = "sys/devices/system/node/node0"
GOOD = {
    f"{NODE}/meminfo": "Node 0 MemTotal: 4194304 kB\n",
    f"{NODE}/cpulist": "0-1\n",
    f"{NODE}/distance": "10\n",
    f"{NODE}/hugepages/hugepages-2048kB/nr_hugepages": "1\n",
}
TIERS = "sys/devices/virtual/memory_tiering"
KI = 1024
MEMINFO = """\
Node 1 MemTotal:       1000 kB
Node 1 MemFree:         100 kB
Node 1 MemUsed:         900 kB
Node 1 Active(anon):    500 kB
Node 1 Active(file):     20 kB
Node 1 Inactive(file):    3 kB
Node 1 FilePages:        40 kB
Node 1 SReclaimable:      4 kB
"""


def machine_at(root: Path) -> Machine:
    return read_machine(root / "sys", root / "proc")


def problem_at(root: Path) -> str:
    with pytest.raises(MachineError) as caught:
        machine_at(root)
    text = str(caught.value)
    assert "\n" not in text
    assert text.startswith(f"{caught.value.path}: ")
    return text.removeprefix(f"{root}/")


def test_one_node(tree: Tree) -> None:
    (node,) = machine_at(tree("one-node")).nodes
    pools = {PAGE_2M: 64, PAGE_1G: 0}
    assert node == NumaNode(0, 16315236 * KIB, pools, CpuSet(range(8)), {0: 10})


def test_two_sockets(tree: Tree) -> None:
    first, second = machine_at(tree("two-sockets")).nodes
    threads = CpuSet.parse("0-31,64-95")
    pools = {PAGE_2M: 1024, PAGE_1G: 8}
    assert first == NumaNode(0, 131586636 * KIB, pools, threads, {0: 10, 1: 21})
    assert second.memory_bytes == 132072236 * KIB
    assert second.cpus == CpuSet.parse("32-63,96-127")
    assert second.hugepages == {PAGE_2M: 512, PAGE_1G: 4}
    assert second.distances == {0: 21, 1: 10}


def test_sub_numa_clusters(tree: Tree) -> None:
    machine = machine_at(tree("snc-four-nodes"))
    rows = [tuple(node.distances.values()) for node in machine.nodes]
    assert rows == [(10, 11, 21, 21), (11, 10, 21, 21), (21, 21, 10, 11), (21, 21, 11, 10)]
    assert [node.memory_bytes // KIB for node in machine.nodes] == [
        64858112,
        66043492,
        66060288,
        66037964,
    ]
    assert machine.nodes[2].hugepages == {PAGE_2M: 0, PAGE_1G: 0}


def test_eight_nodes(tree: Tree) -> None:
    machine = machine_at(tree("nps4-eight-nodes"))
    assert str(machine.node_set) == "0-7"
    assert machine.nodes[3].distances == {0: 12, 1: 12, 2: 12, 3: 10, 4: 32, 5: 32, 6: 32, 7: 32}
    assert all(len(node.cpus) == 32 for node in machine.nodes)


def test_sparse_ids_and_nodes_without_cpus_or_memory(tree: Tree) -> None:
    machine = machine_at(tree("sparse-memory-only"))
    assert str(machine.node_set) == "0-1,8,252-255"
    by_id = {node.node_id: node for node in machine.nodes}
    assert [node_id for node_id, node in by_id.items() if not node.cpus] == [1, 252, 253, 254, 255]
    assert by_id[253].memory_bytes == 0
    assert by_id[252].memory_bytes == 16515072 * KIB
    # The third number of the row belongs to the third online node, which is node 8.
    assert by_id[0].distances == {0: 10, 1: 20, 8: 40, 252: 80, 253: 80, 254: 80, 255: 80}
    assert by_id[8].distance_to(0) == 40


def test_a_kernel_without_numa_is_one_node(tree: Tree) -> None:
    machine = machine_at(tree("without-numa"))
    assert machine == Machine((NumaNode(0, 8061524 * KIB, {PAGE_2M: 12}, CpuSet(range(4))),))


def test_a_kernel_without_optional_files(plant: Plant) -> None:
    online = {"sys/devices/system/cpu/online": ""}
    root = plant(online | {"proc/meminfo": "MemTotal:  1024 kB\n"})
    assert machine_at(root) == Machine((NumaNode(0, 1 << 20),))
    root = plant({f"{NODE}/meminfo": "Node 0 MemTotal:  2048 kB\n"})
    assert machine_at(root) == Machine((NumaNode(0, 2 << 20),))


def test_other_entries_are_ignored(plant: Plant) -> None:
    other = {"power/x": "", "node/x": "", "node01/x": "", "nodeX/x": "", "node7": "a file"}
    overlay = {f"sys/devices/system/node/{name}": text for name, text in other.items()}
    root = plant(overlay | {f"{NODE}/meminfo": "Node 0 MemTotal: 4 kB", f"{NODE}/cpulist": "\n"})
    assert machine_at(root) == Machine((NumaNode(0, 4096),))


def test_an_empty_root(tmp_path: Path) -> None:
    text = problem_at(tmp_path)
    assert text == "sys/devices/system: no such directory; mount the host's sysfs here"
    (tmp_path / "sys/devices/system").mkdir(parents=True)
    text = problem_at(tmp_path)
    assert text == "proc/meminfo: no such file; mount the host's sysfs and procfs here"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "Node 0 MemTotal:",
        "Node 0 MemTotal:  -4 kB",
        "Node 0 MemTotal:  4 MB",
        "Node 1 MemTotal:  4 kB",
        "MemTotal:  4 kB",
        "Node 0 MemTotal: 99999999999999999999 kB",
        "Node 0 MemTotal: 9999999999999999 kB",
        "\xff\xfe\0",
    ],
)
def test_invalid_meminfo(plant: Plant, text: str) -> None:
    root = plant(GOOD | {f"{NODE}/meminfo": text})
    assert problem_at(root).startswith(f"{NODE}/meminfo: no line 'Node 0 MemTotal: <number> kB'; ")


def test_meminfo_is_required(plant: Plant) -> None:
    root = plant({f"{NODE}/cpulist": "0"})
    assert problem_at(root).startswith(f"{NODE}/meminfo: no such file; ")


@pytest.mark.parametrize("text", ["", "-1", "1.5", "x", "1 2", "9" * 19, "9" * 5000, "0x10", "²"])
def test_invalid_page_counts(plant: Plant, text: str) -> None:
    path = f"{NODE}/hugepages/hugepages-2048kB/nr_hugepages"
    found = problem_at(plant(GOOD | {path: text}))
    assert found.startswith(f"{path}: ")
    assert len(found) < 300


def test_more_pages_than_any_machine_has(plant: Plant) -> None:
    path = f"{NODE}/hugepages/hugepages-2048kB/nr_hugepages"
    found = problem_at(plant(GOOD | {path: str(2**62)}))
    assert found.startswith(f"{path}: {2**62} pages are more than any machine has; ")


@pytest.mark.parametrize(
    "name", ["hugepages-kB", "hugepages-3kB", "hugepages-0kB", "hugepages-9999999999999kB", "x"]
)
def test_invalid_pool_names(plant: Plant, name: str) -> None:
    root = plant(GOOD | {f"{NODE}/hugepages/{name}/nr_hugepages": "1"})
    expected = f"{NODE}/hugepages/{name}: the name is not that of a hugepage pool; "
    assert problem_at(root).startswith(expected)


@pytest.mark.parametrize(
    "text", ["x", "1-", "3-1", "0-99999", "8192", "0,,1", "0-1-2", "-1", "0 1"]
)
def test_invalid_cpu_lists(plant: Plant, text: str) -> None:
    found = problem_at(plant(GOOD | {f"{NODE}/cpulist": text}))
    assert found.startswith(f"{NODE}/cpulist: {text!r} is not a list of CPUs such as 0-3,8; ")


@pytest.mark.parametrize("text", ["", "10 20", "-10", "ten", "0", "100000", "10.0", "1" * 200])
def test_invalid_distances(plant: Plant, text: str) -> None:
    found = problem_at(plant(GOOD | {f"{NODE}/distance": text}))
    assert found.startswith(f"{NODE}/distance: ")
    assert " is not one distance for each of the 1 nodes; " in found
    assert len(found) < 300


def test_a_node_id_above_the_kernels_limit(plant: Plant) -> None:
    path = "sys/devices/system/node/node1024"
    found = problem_at(plant(GOOD | {f"{path}/meminfo": "Node 1024 MemTotal: 4 kB"}))
    assert found.startswith(f"{path}: NUMA node ids end at 1023; ")


def test_an_endless_file(plant: Plant) -> None:
    found = problem_at(plant(GOOD | {f"{NODE}/cpulist": "0," * 40000}))
    assert found.startswith(f"{NODE}/cpulist: more than 65536 bytes; ")


def test_a_directory_in_place_of_a_file(plant: Plant) -> None:
    root = plant({name: text for name, text in GOOD.items() if "cpulist" not in name})
    (root / NODE / "cpulist").mkdir()
    found = problem_at(root)
    assert found.startswith(f"{NODE}/cpulist: Is a directory; run as root with the host's sysfs")


def test_a_directory_that_cannot_be_listed(plant: Plant) -> None:
    root = plant({name: text for name, text in GOOD.items() if "hugepages" not in name})
    loop = root / NODE / "hugepages"
    loop.symlink_to(loop)
    found = problem_at(root)
    assert found.startswith(f"{NODE}/hugepages: Too many levels of symbolic links; run as root")


def test_a_file_in_place_of_a_directory(plant: Plant) -> None:
    root = plant({name: text for name, text in GOOD.items() if "hugepages" not in name})
    (root / NODE / "hugepages").write_text("")
    assert machine_at(root).nodes[0].hugepages == {}


def test_kinds_of_memory(plant: Plant) -> None:
    tree = overlay_of(Machine((NumaNode(0, 1 << 30), NumaNode(1, 0), NumaNode(2, 1 << 30))))
    tree["sys/devices/system/node/has_normal_memory"] = "0\n"
    tree[f"{TIERS}/memory_tier4/nodelist"] = "0\n"
    tree[f"{TIERS}/memory_tier22/nodelist"] = "2\n"
    tree[f"{TIERS}/power/control"] = "auto\n"
    nodes = machine_at(plant(tree)).nodes
    # A node without any memory has no kind of memory either.
    assert [node.is_movable_only for node in nodes] == [False, False, True]
    assert [node.memory_tier for node in nodes] == [4, None, 22]


@pytest.mark.parametrize("normal", [None, "\n"])
def test_without_the_files_of_newer_kernels_the_kinds_are_unknown(
    plant: Plant, normal: str | None
) -> None:
    tree = overlay_of(Machine((NumaNode(0, 1 << 30),)))
    name = "sys/devices/system/node/has_normal_memory"
    del tree[name]
    if normal is not None:
        tree[name] = normal
    (node,) = machine_at(plant(tree)).nodes
    assert (node.is_movable_only, node.memory_tier) == (False, None)


def test_a_broken_list_of_nodes(plant: Plant) -> None:
    tree = overlay_of(Machine((NumaNode(0, 1 << 30),)))
    tree[f"{TIERS}/memory_tier4/nodelist"] = "zero\n"
    text = problem_at(plant(tree))
    assert text.startswith(f"{TIERS}/memory_tier4/nodelist: 'zero' is not a list of NUMA nodes")


def test_isolated_cpus(tmp_path: Path) -> None:
    assert read_isolated_cpus(tmp_path) == CpuSet()
    file = tmp_path / "devices/system/cpu/isolated"
    file.parent.mkdir(parents=True)
    for text, cpus in (("\n", CpuSet()), ("2-3,7\n", CpuSet({2, 3, 7}))):
        file.write_text(text)
        assert read_isolated_cpus(tmp_path) == cpus
    file.write_text("x")
    with pytest.raises(MachineError, match=r"isolated: 'x' is not a list of CPUs"):
        read_isolated_cpus(tmp_path)


def write(root: Path, node: int, text: str) -> Path:
    path = root / f"devices/system/node/node{node}/meminfo"
    path.parent.mkdir(parents=True)
    path.write_text(text)
    return path


def test_free_and_reclaimable_bytes(tmp_path: Path) -> None:
    write(tmp_path, 1, MEMINFO)
    write(tmp_path, 0, "Node 0 MemTotal: 5 kB\n")
    assert read_available(tmp_path) == {1: 127 * KI}


def test_a_kernel_without_numa(tmp_path: Path) -> None:
    assert read_available(tmp_path) == {}


def test_a_file_that_cannot_be_read(tmp_path: Path) -> None:
    path = write(tmp_path, 0, "")
    path.unlink()
    path.mkdir()
    with pytest.raises(MachineError, match="meminfo"):
        read_available(tmp_path)
