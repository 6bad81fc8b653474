"""Configuration text: YAML and JSON, and one line for everything that is wrong with it."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nri_numamem.config.documents import DocumentError
from nri_numamem.config.errors import UsageError
from nri_numamem.config.load import load_file, load_text, parse_metrics_address, parse_reserved
from nri_numamem.config.settings import Settings, settings_to_mapping
from nri_numamem.memorymanager import Reservation

GIB = 1 << 30

TEXT = """\
# what the host keeps
reservedMemory:
- numaNode: 0
  limits: {memory: 1Gi, hugepages-1Gi: 2Gi}
- numaNode: 1
  limits:
    memory: 1Gi
topologyManagerPolicy: restricted
memoryManagerPolicy: None
topologyManagerPolicyOptions:
  prefer-closest-numa-nodes: "false"
"""
SETTINGS = Settings(
    memory_manager_policy="None",
    topology_manager_policy="restricted",
    prefer_closest_numa_nodes=False,
    reserved_memory=(
        Reservation(0, {"memory": GIB, "hugepages-1Gi": 2 * GIB}),
        Reservation(1, {"memory": GIB}),
    ),
)


def error_of(text: str) -> str:
    with pytest.raises(DocumentError) as caught:
        load_text(text, "ORIGIN")
    found = str(caught.value)
    assert "\n" not in found
    assert found.startswith("ORIGIN:")
    assert "; " in found
    return found.removeprefix("ORIGIN:")


def test_yaml_is_read() -> None:
    assert load_text(TEXT, "x") == SETTINGS


def test_json_is_read() -> None:
    assert load_text(json.dumps(settings_to_mapping(SETTINGS), indent=2), "x") == SETTINGS


@pytest.mark.parametrize("text", ["", " \n\t", "# nothing\n", "---\n", "{}", "null"])
def test_nothing_gives_the_defaults(text: str) -> None:
    assert load_text(text, "x") == Settings()


def test_anchors_are_read_and_merge_keys_are_refused() -> None:
    anchor = "kubeReserved: &a {memory: 1Gi}\n"
    settings = load_text(f"{anchor}systemReserved: *a\n", "x")
    assert settings.kube_reserved == settings.system_reserved == {"memory": "1Gi"}
    with pytest.raises(DocumentError, match=r"^x:3: the merge key << is not supported; write out"):
        load_text(f"{anchor}systemReserved:\n  <<: *a\n", "x")


@pytest.mark.parametrize(
    ("text", "line", "problem"),
    [
        ("a: b: c\n", 1, "mapping values are not allowed here; "),
        ("\nlogLevel: [info\n", 3, "expected ',' or ']', but got '<stream end>'; "),
        ("logLevel:\n\tinfo\n", 2, "found character '\\t' that cannot start any token; "),
        ("logLevel: info\nlogFormat: json\nlogLevel: debug\n", 3, "the key 'logLevel' is given tw"),
        (
            "kubeReserved:\n  cpu: 1\n  cpu: 2\n",
            3,
            "the key 'cpu' is given twice; keep one",
        ),
        ("logLevel: info\n---\nlogLevel: info\n", 2, "but found another document; "),
        ("logLevel: *missing\n", 1, "found undefined alias 'missing'; "),
        ("logLevel: !!python/object:x.Y {}\n", 1, "could not determine a constructor for the tag"),
        ("kubeReserved:\n  ? [a]\n  : 1\n", 2, "found unhashable key; "),
        (
            "\n\nkubeReserved: 2020-99-99\n",
            3,
            "kubeReserved: ",
        ),
        ("logLevel: !!bool x\n", 1, "'x' in a value of type bool; "),
        ("logLevel: !!timestamp x\n", 1, "'NoneType' object has no attribute "),
        ("logLevel: !!int ''\n", 1, "string index out of range in a value of type int; "),
        ("kubeReserved: !!map 3\n", 1, "expected a mapping node, but found scalar; "),
        ("kubeReserved: " + "9" * 5000, 1, "Exceeds the limit (4300 digits)"),
        ("logLevel: info\nx: \x01\n", 2, "the character '\\x01' is not allowed; remove it"),
        ("[" * 100_000, 1, "nested too deeply, "),
        ("x" * (1 << 19) + "y", 1, "more than 524288 characters; "),
    ],
)
def test_invalid_yaml_names_the_line(text: str, line: int, problem: str) -> None:
    assert error_of(text).startswith(f"{line}: {problem}")


@pytest.mark.parametrize(
    ("text", "line", "place"),
    [
        ("# c\nlogLevl: info\n", 2, "logLevl: unknown key; did you mean logLevel? "),
        ("\n\nlogLevel: loud\n", 3, "logLevel: unknown value 'loud'; "),
        ("# c\n- a\n", 2, "settings: a list instead of a mapping; "),
        ("text\n", 1, "settings: 'text' instead of a mapping; "),
        (
            TEXT.replace("    memory: 1Gi", "    memory: 1Gb"),
            7,
            "reservedMemory[1].limits.memory: ",
        ),
        (TEXT.replace("numaNode: 1", "numaNodes: 1"), 5, "reservedMemory[1].numaNodes: unknown"),
        (TEXT.replace("- numaNode: 1\n ", "-"), 5, "reservedMemory[1].numaNode: missing; "),
        (
            TEXT.replace("hugepages-1Gi", "hugepages-3Mi"),
            4,
            "reservedMemory[0].limits.hugepages-3M",
        ),
        ("reservedMemory:\n-\n", 2, "reservedMemory[0].numaNode: missing; "),
        ("kubeReserved: &a\n  memory: x\n", 2, "kubeReserved.memory: 'x' is not a quantity"),
    ],
)
def test_invalid_settings_name_line_and_key(text: str, line: int, place: str) -> None:
    assert error_of(text).startswith(f"{line}: {place}")


def test_a_document_that_contains_itself() -> None:
    assert error_of("&a {kubeReserved: *a}").startswith("1: the alias *a is inside of its own ")


@given(st.text(max_size=40) | st.text("abc:-[]{}&*!|>'\"%@#,? \n\t0", max_size=40))
def test_any_text_is_read_or_refused_on_one_line(text: str) -> None:
    found = "ORIGIN:1: "
    try:
        load_text(text, "ORIGIN")
    except DocumentError as error:
        found = str(error)
    assert found.startswith("ORIGIN:")
    assert found.splitlines() == [found]


def test_files(tmp_path: Path) -> None:
    path = tmp_path / "config.yaml"
    path.write_text(TEXT)
    assert load_file(path) == SETTINGS
    path.write_text("\nx: 1\n")
    with pytest.raises(DocumentError, match=f"^{path}:2: x: unknown key; "):
        load_file(path)


def test_a_file_that_cannot_be_read(tmp_path: Path) -> None:
    missing = tmp_path / "none"
    with pytest.raises(UsageError, match=f"^{missing}: No such file or directory; give the"):
        load_file(missing)
    with pytest.raises(UsageError, match=f"^{tmp_path}: Is a directory; "):
        load_file(tmp_path)


def test_a_file_that_is_not_text(tmp_path: Path) -> None:
    path = tmp_path / "config.yaml"
    path.write_bytes(b"a: 1\nb: \xff\n")
    with pytest.raises(DocumentError, match=f"^{path}:2: not UTF-8 text; save"):
        load_file(path)


def test_an_endless_file() -> None:
    with pytest.raises(DocumentError, match=r"^/dev/zero:1: more than 524288 characters; "):
        load_file(Path("/dev/zero"))


def test_uses_of_the_flag_add_up() -> None:
    assert parse_reserved([]) == ()
    values = ["0:memory=1Gi,hugepages-1Gi=2Gi;1:memory=1Gi", "2:memory=5"]
    assert parse_reserved(values) == (
        *SETTINGS.reserved_memory,
        Reservation(2, {"memory": 5}),
    )
    assert parse_reserved(["9:memory=1Gi", "", "2:memory=5"]) == parse_reserved(["2:memory=5"])
    assert parse_reserved(["9:memory=1Gi", ""]) == ()


def test_an_invalid_use_of_the_flag_is_named() -> None:
    with pytest.raises(UsageError) as caught:
        parse_reserved(["0:memory=1Gi", "0=memory"])
    text = str(caught.value)
    assert text.startswith("--reserved-memory '0=memory': the reserved memory has incorrect format")
    assert text.endswith("got 0=memory; write NODE:TYPE=QUANTITY, such as 0:memory=1Gi")


def test_an_address_for_metrics() -> None:
    assert parse_metrics_address("localhost:9551") == "localhost:9551"
    assert parse_metrics_address("") == ""
    with pytest.raises(UsageError, match=r"^--metrics-address: 'x' is not an address; write "):
        parse_metrics_address("x")


def test_yaml_is_imported_only_when_there_is_text() -> None:
    script = (
        "import sys\nfrom nri_numamem.config.load import load_text\n"
        "load_text(' ', 'x')\nprint('yaml' in sys.modules)\n"
        "load_text('{}', 'x')\nprint('yaml' in sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert done.stdout == "False\nTrue\n"


KUBELET = """\
apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
memoryManagerPolicy: Static
topologyManagerPolicy: restricted
topologyManagerScope: pod
kubeReserved: {memory: 500Mi, cpu: "1"}
reservedMemory:
- numaNode: 0
  limits: {memory: 600Mi}
"""


def test_missing_keys_are_copied_from_the_kubelets_file(tmp_path: Path) -> None:
    path = tmp_path / "kubelet.yaml"
    path.write_text(KUBELET)
    text = f"kubeletConfigFile: {path}\ntopologyManagerScope: container\nkubeReserved:\n"
    found = load_text(text, "x")
    assert found == Settings(
        topology_manager_policy="restricted",
        topology_manager_scope="container",
        kube_reserved={"memory": "500Mi", "cpu": "1"},
        eviction_hard={"memory.available": "100Mi"},
        reserved_memory=(Reservation(0, {"memory": 600 << 20}),),
        kubelet_config_file=str(path),
        kubelet_memory_manager_policy="Static",
    )
    assert found.is_managed_twice
    assert not found.has_static_cpus
    path.write_text(f"{KUBELET}cpuManagerPolicy: static\n")
    assert load_text(text, "x").has_static_cpus
    path.write_text(f"{KUBELET}reservedSystemCPUs: 0,8-9\n")
    assert load_text(text, "x").kubelet_reserved_cpus == "0,8-9"
    # The flag overrides kubeletConfigFile, and works without it.
    other = tmp_path / "other.json"
    other.write_text('{"kind": "KubeletConfiguration", "topologyManagerPolicy": "none"}')
    for ours in (text, ""):
        found = load_text(ours, "x", other)
        assert found.topology_manager_policy == "none"
        assert found.kubelet_config_file == str(other)
        assert not found.is_managed_twice


def test_the_kubelets_file_of_a_mounted_host(tmp_path: Path) -> None:
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc/kubelet.yaml").write_text(KUBELET)
    own = tmp_path / "own.yaml"
    own.write_text("kubeletConfigFile: /etc/kubelet.yaml\n")
    found = load_file(own, root=tmp_path)
    assert found.topology_manager_policy == "restricted"
    assert found.kubelet_config_file == "/etc/kubelet.yaml"
    with pytest.raises(UsageError, match=r"kubeletConfigFile: /etc/kubelet.yaml: No such file"):
        load_file(own)


@pytest.mark.parametrize(
    ("text", "where", "what"),
    [
        (KUBELET + "evictionHard: 5\n", 10, "evictionHard: 5 instead of a mapping"),
        (KUBELET.replace("600Mi", "much"), 9, "reservedMemory[0].limits.memory: 'much' "),
        (KUBELET.replace("kind: Kubelet", "kind: Other"), 2, "no 'kind: KubeletConfiguration' "),
        ("a: [", 1, "expected the node content"),
        ("", 1, "this is not a KubeletConfiguration; give the file "),
    ],
)
def test_errors_in_the_kubelets_file_name_it_and_the_line(
    tmp_path: Path, text: str, where: int, what: str
) -> None:
    path = tmp_path / "kubelet.yaml"
    path.write_text(text)
    with pytest.raises(DocumentError) as caught:
        load_text(f"kubeletConfigFile: {path}", "x")
    assert str(caught.value).startswith(f"{path}:{where}: ")
    assert what in str(caught.value)


def test_errors_of_the_plugins_file_name_that_file(tmp_path: Path) -> None:
    assert error_of("logLevel: info\nkubeletConfigFile: here.yaml\n").startswith("2: ")
    path = tmp_path / "kubelet.yaml"
    with pytest.raises(UsageError, match=f"^--kubelet-config: {path}: No such file"):
        load_text("", "x", path)
    with pytest.raises(UsageError, match=f"^x:2: kubeletConfigFile: {path}: No such file"):
        load_text(f"logLevel: info\nkubeletConfigFile: {path}\n", "x")


def test_a_fifo_is_refused_at_once(tmp_path: Path) -> None:
    path = tmp_path / "fifo"
    os.mkfifo(path)
    with pytest.raises(UsageError, match=f"^{path}: this is a FIFO; give the path of a regular"):
        load_file(path)


def test_settings_have_their_places(tmp_path: Path) -> None:
    kubelet = tmp_path / "kubelet.yaml"
    kubelet.write_text("kind: KubeletConfiguration\nkubeReserved:\n  memory: 1Gi\nlogLevel: x\n")
    own = "logLevel: debug\nreservedMemory:\n- numaNode: 0\n  limits:\n    memory: 1Gi\n"
    settings = load_text(own, "ORIGIN", kubelet)
    limit = ("reservedMemory", 0, "limits", "memory")
    assert settings.place_of(limit) == "ORIGIN:5"
    assert settings.place_of((*limit[:3], "hugepages-2Mi")) == "ORIGIN:4"
    assert settings.place_of(("kubeReserved", "memory")) == f"{kubelet}:3"
    assert settings.place_of(("logLevel",)) == "ORIGIN:1"
    assert settings.place_of(("stateFile",)) == ""
