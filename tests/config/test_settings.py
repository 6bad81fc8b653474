"""Settings: defaults, every key, the round trip, and errors with place and remedy."""

import datetime as dt
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nri_numamem.config import settings as module
from nri_numamem.config import table
from nri_numamem.config.documents import parse
from nri_numamem.config.load import load_text
from nri_numamem.config.settings import (
    Settings,
    SettingsError,
    settings_from_mapping,
    settings_to_mapping,
)
from nri_numamem.engine.features.residency.setting import HeadRoomLimit, Residency
from nri_numamem.memorymanager import Reservation
from nri_numamem.memorymanager.burstable import BurstablePods, Evidence
from nri_numamem.numa import MemoryPolicies, OnUnsupported, PodStrategies, PolicyMode, Strategy

GIB = 1 << 30

FULL = {
    "memoryManagerPolicy": "None",
    "reservedMemory": [
        {"numaNode": 0, "limits": {"memory": "1Gi", "hugepages-1Gi": "2Gi"}},
        {"numaNode": 252, "limits": {"memory": 1024}},
    ],
    "topologyManagerPolicy": "single-numa-node",
    "topologyManagerScope": "pod",
    "topologyManagerPolicyOptions": {
        "prefer-closest-numa-nodes": "false",
        "max-allowable-numa-nodes": "16",
    },
    "kubeReserved": {"cpu": "500m", "memory": "1Gi"},
    "systemReserved": {"memory": 1048576, "cpu": 0.5},
    "evictionHard": {"memory.available": "5%", "nodefs.available": "10%"},
    "kubeletConfigFile": "/var/lib/kubelet/config.yaml",
    "stateFile": "/var/lib/plugin/state",
    "metricsAddress": "[::1]:9551",
    "metricsTextfile": "/srv/textfiles/nri_numamem.prom",
    "whenUnsatisfiable": "RunUnpinned",
    "placementStrategy": "spread",
    "podPlacementStrategies": {"allowed": ["pack"], "namespaces": ["shop"]},
    "cpuFollowsMemory": "require",
    "memoryPolicy": {
        "modes": ["interleave", "bind"],
        "namespaces": ["shop"],
        "defaults": {"lab": "local"},
        "runtimes": ["default", "crun"],
        "onUnsupported": "Reject",
    },
    "networkHints": "secondary",
    "burstablePods": {
        "evidence": ["annotation"],
        "namespaces": ["shop"],
        "oomScoreAdj": -500,
        "requireFreeMemory": False,
    },
    "residency": {
        "intervalSeconds": 30,
        "perContainerMetrics": True,
        "remotePercent": 20,
        "headRoom": "5%",
    },
    "logLevel": "debug",
    "logFile": "/var/log/plugin.log",
    "logFormat": "console",
}


@pytest.mark.parametrize("word", ["off", "prefer", "require"])
def test_words_of_cpu_following_need_no_quotes(word: str) -> None:
    _, document = parse(f"cpuFollowsMemory: {word}", "x")
    assert settings_from_mapping(document).cpu_follows_memory == word


def error_of(document: object) -> str:
    with pytest.raises(SettingsError) as caught:
        settings_from_mapping(document)
    text = str(caught.value)
    assert "\n" not in text
    assert "; " in text
    return text


def test_an_unset_state_file_is_the_default_and_an_empty_one_is_none() -> None:
    paths = [Settings(state_file=path).state_file_or_default for path in (None, "", "/s")]
    assert paths == [table.STATE_FILE, "", "/s"]


def test_nothing_gives_the_defaults() -> None:
    assert settings_from_mapping(None) == settings_from_mapping({}) == Settings()
    assert Settings().memory_manager_policy == "Static"
    assert Settings().topology_manager_policy == "best-effort"
    assert Settings().topology_manager_scope == "container"
    assert Settings().prefer_closest_numa_nodes
    assert Settings().when_unsatisfiable == "Reject"
    assert Settings().log_level == "info"
    assert Settings().log_format == "auto"
    assert Settings().notes == ()


def test_every_key_is_read() -> None:
    assert settings_from_mapping(FULL) == Settings(
        memory_manager_policy="None",
        topology_manager_policy="single-numa-node",
        topology_manager_scope="pod",
        prefer_closest_numa_nodes=False,
        max_allowable_numa_nodes=16,
        reserved_memory=(
            Reservation(0, {"memory": GIB, "hugepages-1Gi": 2 * GIB}),
            Reservation(252, {"memory": 1024}),
        ),
        kube_reserved={"cpu": "500m", "memory": "1Gi"},
        system_reserved={"memory": "1048576", "cpu": "0.5"},
        eviction_hard={"memory.available": "5%", "nodefs.available": "10%"},
        kubelet_config_file="/var/lib/kubelet/config.yaml",
        state_file="/var/lib/plugin/state",
        metrics_address="[::1]:9551",
        metrics_textfile="/srv/textfiles/nri_numamem.prom",
        when_unsatisfiable="RunUnpinned",
        placement_strategy="spread",
        pod_strategies=PodStrategies((Strategy.PACK,), ("shop",)),
        cpu_follows_memory="require",
        memory_policies=MemoryPolicies(
            (PolicyMode.INTERLEAVE, PolicyMode.BIND),
            ("shop",),
            {"lab": PolicyMode.LOCAL},
            ("default", "crun"),
            OnUnsupported.REJECT,
        ),
        residency=Residency(
            30, per_container=True, remote_percent=20, head_room=HeadRoomLimit(percent=5)
        ),
        network_hints="secondary",
        burstable_pods=BurstablePods(
            (Evidence.ANNOTATION,), ("shop",), -500, require_free_memory=False
        ),
        log_level="debug",
        log_file="/var/log/plugin.log",
        log_format="console",
    )


def test_a_key_without_a_value_keeps_its_default() -> None:
    nothing: dict[str, object] = dict.fromkeys(FULL)
    assert settings_from_mapping(nothing) == Settings()
    options = {"prefer-closest-numa-nodes": None, "max-allowable-numa-nodes": None}
    assert settings_from_mapping({"topologyManagerPolicyOptions": options}) == Settings()


def test_settings_without_effect_are_noted() -> None:
    options = {"max-allowable-numa-nodes": 8}
    (note,) = settings_from_mapping({"topologyManagerPolicyOptions": options}).notes
    assert note.startswith("topologyManagerPolicyOptions.max-allowable-numa-nodes has no effect")


def test_two_memory_managers_are_noted() -> None:
    twice = Settings(kubelet_memory_manager_policy="Static", kubelet_config_file="/etc/kubelet")
    (note,) = twice.notes
    assert note.startswith("both memory managers are active")
    assert note.endswith("set the policy to None in /etc/kubelet")
    assert replace(twice, memory_manager_policy="None").notes == ()
    (note,) = replace(twice, kubelet_config_file=None).notes
    assert note.endswith("set the policy to None in its configuration")


@pytest.mark.parametrize(
    "value", ["yes", "tRUE", "", 2, 1.0, [], {}, pytest.param(1 << 20000, id="huge")]
)
def test_other_texts_are_not_booleans(value: object) -> None:
    text = error_of({"topologyManagerPolicyOptions": {"prefer-closest-numa-nodes": value}})
    assert text.startswith("topologyManagerPolicyOptions.prefer-closest-numa-nodes: ")
    assert text.endswith('write "true" or "false"')


@pytest.mark.parametrize("value", [7, "7", "eight", -8, 8.5, True, "9" * 40, 1 << 40, [], "²"])
def test_the_number_of_nodes_is_checked_as_the_kubelet_does(value: object) -> None:
    text = error_of({"topologyManagerPolicyOptions": {"max-allowable-numa-nodes": value}})
    assert text.startswith("topologyManagerPolicyOptions.max-allowable-numa-nodes: ")
    assert "write a whole number from 8" in text


def test_a_similar_key_is_suggested() -> None:
    for key in ("memorymanagerpolicy", "memory_manager_policy", "memoryManagerPolcy"):
        assert f"{key}: unknown key; did you mean memoryManagerPolicy? allowed: " in error_of(
            {key: "Static"}
        )


def test_an_unknown_key_lists_the_known_ones() -> None:
    text = error_of({"zzz": 1})
    assert text.startswith("zzz: unknown key; allowed: memoryManagerPolicy, reservedMemory, ")
    assert text.endswith("logFormat")


def test_an_unknown_option_lists_the_known_ones() -> None:
    text = error_of({"topologyManagerPolicyOptions": {"prefer-closest-numa": "true"}})
    assert "did you mean prefer-closest-numa-nodes? " in text


def test_keys_are_shown_on_one_line() -> None:
    assert error_of({"a\nb": 1}).startswith("'a\\nb': unknown key; ")
    assert len(error_of({"x" * 10000: 1})) < 600


def test_keys_must_be_text() -> None:
    assert error_of({True: 1}) == "settings: the key True is not text; put it in quotes"


@pytest.mark.parametrize(("document", "shown"), [(3, "3"), ("text", "'text'"), ([], "a list")])
def test_the_document_must_be_a_mapping(document: object, shown: str) -> None:
    assert error_of(document) == f"settings: {shown} instead of a mapping; write KEY: VALUE"


@pytest.mark.parametrize("key", ["apiVersion", "kind"])
def test_a_whole_kubelet_configuration_is_recognised(key: str) -> None:
    text = error_of({"authentication": {}, key: "KubeletConfiguration"})
    assert text.startswith(
        f"{key}: this looks like a whole KubeletConfiguration; set kubeletConfigFile "
    )
    assert "keep only these keys: " in text
    assert "reservedMemory" in text


@pytest.mark.parametrize(
    ("key", "allowed"),
    [
        ("memoryManagerPolicy", table.MEMORY_MANAGER_POLICIES),
        ("topologyManagerPolicy", table.TOPOLOGY_MANAGER_POLICIES),
        ("topologyManagerScope", table.TOPOLOGY_MANAGER_SCOPES),
        ("whenUnsatisfiable", table.UNSATISFIABLE_ACTIONS),
        ("logLevel", table.LOG_LEVELS),
        ("logFormat", table.LOG_FORMATS),
    ],
)
def test_errors_list_the_allowed_values(key: str, allowed: tuple[str, ...]) -> None:
    for value in allowed:
        assert settings_to_mapping(settings_from_mapping({key: value}))[key] == value
    for wrong in (allowed[1].swapcase(), "?", 7, False, [allowed[0]], {allowed[0]: 1}, 2.5):
        text = error_of({key: wrong})
        assert text.startswith(f"{key}: unknown value ")
        assert text.endswith(f"allowed: {', '.join(allowed)}")


def test_a_similar_value_is_suggested() -> None:
    assert "did you mean Static?" in error_of({"memoryManagerPolicy": "static"})
    assert "did you mean best-effort?" in error_of({"topologyManagerPolicy": "bestEffort"})


@pytest.mark.parametrize("value", [{}, "0:memory=1Gi", 5])
def test_reservations_are_a_list(value: object) -> None:
    text = error_of({"reservedMemory": value})
    assert text.startswith("reservedMemory: ")
    assert text.endswith("write a list such as [{numaNode: 0, limits: {memory: 1Gi}}]")


def reservation_error(entry: object) -> str:
    good = {"numaNode": 0, "limits": {"memory": "1Gi"}}
    text = error_of({"reservedMemory": [good, entry]})
    assert text.startswith("reservedMemory[1]")
    return text.removeprefix("reservedMemory[1]")


def test_a_reservation_has_two_keys() -> None:
    assert reservation_error("x") == ": 'x' instead of a mapping; write KEY: VALUE"
    text = reservation_error({"numaNod": 1})
    assert text == ".numaNod: unknown key; did you mean numaNode? allowed: numaNode, limits"
    for empty in (None, {"numaNode": None}):
        text = reservation_error(empty)
        assert text == ".numaNode: missing; write a whole number from 0 to 1023"


@pytest.mark.parametrize(
    "node_id", [-1, 1024, "one", 1.0, False, [], pytest.param(1 << 20000, id="huge")]
)
def test_a_reservation_names_a_numa_node(node_id: object) -> None:
    text = reservation_error({"numaNode": node_id, "limits": {"memory": "1Gi"}})
    assert text.startswith(".numaNode: ")
    assert text.endswith(" is out of range; write a whole number from 0 to 1023")


def test_a_reservation_reserves_something() -> None:
    nothing: tuple[object, ...] = ({}, None)
    for limits in nothing:
        text = reservation_error({"numaNode": 0, "limits": limits})
        assert text.startswith(".limits: nothing is reserved; write what to reserve")


@pytest.mark.parametrize("name", ["cpu", "hugepages-3Mi", "hugepages-", "hugepages-2MB", "Memory"])
def test_only_memory_and_hugepages_are_reserved(name: str) -> None:
    text = reservation_error({"numaNode": 0, "limits": {name: "1Gi"}})
    assert text.startswith(f".limits.{name}: ")
    assert text.endswith("; use memory or a hugepage resource such as hugepages-2Mi")


@pytest.mark.parametrize(
    "amount", ["-1", "1Gb", "", -5, True, None, [], 1.5, "9Ei", pytest.param(1 << 20000, id="huge")]
)
def test_amounts_must_be_quantities(amount: object) -> None:
    text = reservation_error({"numaNode": 0, "limits": {"memory": amount}})
    assert text.startswith(".limits.memory: ")
    assert text.endswith("; write an amount such as 512Mi")


def test_hugepage_resources_are_spelled_canonically() -> None:
    entry = {"numaNode": 0, "limits": {"hugepages-2048Ki": "4Mi"}}
    (reservation,) = settings_from_mapping({"reservedMemory": [entry]}).reserved_memory
    assert reservation.limits == {"hugepages-2Mi": 4 << 20}
    text = reservation_error(
        {"numaNode": 0, "limits": {"hugepages-2048Ki": "4Mi", "hugepages-2Mi": "4Mi"}}
    )
    assert text == ".limits.hugepages-2Mi: hugepages-2Mi is given twice; keep one of the two"


@pytest.mark.parametrize("key", ["kubeReserved", "systemReserved", "evictionHard"])
def test_amounts_kept_as_text(key: str) -> None:
    name = "memory.available" if key == "evictionHard" else "memory"
    wrongs: tuple[object, ...] = ("much", [], True, None, "-1Gi", 1 << 20000)
    for wrong in wrongs:
        text = error_of({key: {name: wrong}})
        assert text.startswith(f"{key}.{name}: ")
        assert text.endswith("; write an amount such as 512Mi")
    assert error_of({key: "1Gi"}).startswith(f"{key}: '1Gi' instead of a mapping")
    assert error_of({key: {"cpu": dt.date(2020, 1, 1)}}).startswith(f"{key}.cpu: ")


def test_percentages_are_for_eviction_only() -> None:
    eviction_hard = {"memory.available": "7.5%"}
    assert settings_from_mapping({"evictionHard": eviction_hard}).eviction_hard == eviction_hard
    assert error_of({"kubeReserved": {"memory": "5%"}}).startswith("kubeReserved.memory: '5%' ")


@pytest.mark.parametrize("path", ["relative.log", "", 5, "/a\0b", "/" + "x" * 4096, ["/a"]])
def test_the_log_file_is_an_absolute_path(path: object) -> None:
    text = error_of({"logFile": path})
    assert text.startswith("logFile: ")
    assert text.endswith("write a path such as /var/log/nri-numamem.log")


def test_the_kubelets_configuration_is_an_absolute_path() -> None:
    text = error_of({"kubeletConfigFile": "config.yaml"})
    assert text.startswith("kubeletConfigFile: 'config.yaml' is not an absolute path; write a ")


def test_the_state_file_is_an_absolute_path_or_none() -> None:
    assert settings_from_mapping({"stateFile": ""}).state_file == ""
    assert settings_from_mapping({"stateFile": None}).state_file is None
    for path in ("state", 0, False):
        text = error_of({"stateFile": path})
        assert text.startswith("stateFile: ")
        assert text.endswith(
            'write a path such as /var/lib/nri-numamem/nri_numamem_state, or "" for none'
        )


@pytest.mark.parametrize(
    "address",
    ["127.0.0.1:9551", "0.0.0.0:1", "[::]:65535", "[fd00::1]:80", "localhost:80", "a-b.c:080"],
)
def test_metrics_are_served_at_a_host_and_port(address: str) -> None:
    assert settings_from_mapping({"metricsAddress": address}).metrics_address == address


@pytest.mark.parametrize("nothing", ["", None])
def test_metrics_are_off_by_default(nothing: str | None) -> None:
    assert settings_from_mapping({"metricsAddress": nothing}) == Settings()


@pytest.mark.parametrize(
    "address",
    [
        *("9551", 9551, ":9551", "a:", "a:0", "a:65536", "a:123456", "a: 1", "a:1\n", "a:\u0661"),
        *("\u00e4:1", "::1:9551", "[::1]", "[]:1", "http://a:1", "unix:/run/x", "x" * 999),
        *(False, ["a:1"]),
    ],
)
def test_invalid_addresses_are_refused(address: object) -> None:
    text = error_of({"metricsAddress": address})
    assert text.startswith("metricsAddress: ")
    assert text.endswith(
        " is not an address; write HOST:PORT such as 127.0.0.1:9551 or [::1]:9551, or "
        "unix:///run/nri-numamem/metrics.sock"
    )
    assert len(text) < 200


@pytest.mark.parametrize("name", ["/run/x.sock", "/" + "x" * 106])
def test_metrics_are_served_at_a_unix_socket(name: str) -> None:
    address = f"unix://{name}"
    assert settings_from_mapping({"metricsAddress": address}).metrics_address == address


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("", "has no path of a socket"),
        ("run/x", "has no path of a socket"),
        ("/run/", "has no path of a socket"),
        ("/a\0b", "has no path of a socket"),
        ("/" + "\u00e4" * 54, "more than 107 bytes"),
    ],
)
def test_sockets_without_a_usable_path_are_refused(name: str, problem: str) -> None:
    text = error_of({"metricsAddress": f"unix://{name}"})
    assert text.startswith("metricsAddress: ")
    assert problem in text


@pytest.mark.parametrize(
    ("path", "problem"),
    [("/a/metrics.txt", "does not end in .prom"), ("metrics.prom", "is not an absolute path")],
)
def test_a_text_file_has_the_name_that_the_exporter_reads(path: str, problem: str) -> None:
    text = error_of({"metricsTextfile": path})
    assert text.startswith(f"metricsTextfile: {path!r} {problem}")
    assert text.endswith("such as /var/lib/prometheus/node-exporter/nri_numamem.prom")


def test_endless_values_are_not_printed() -> None:
    bomb: object = "x"
    for _ in range(64):
        bomb = [bomb, bomb]
    for key in FULL:
        assert len(error_of({key: {"memory": bomb} if key.endswith("Reserved") else bomb})) < 400


@pytest.mark.parametrize(
    ("document", "problem"),
    [
        (
            {"evictionHard": {"memory.availabel": "1Gi"}},
            "evictionHard.memory.availabel: unknown name; did you mean memory.available? allowed: ",
        ),
        (
            {"kubeReserved": {"memry": "1Gi"}},
            "kubeReserved.memry: unknown name; did you mean memory? ",
        ),
        (
            {"systemReserved": {"hugepages-3Mi": "1Gi"}},
            "systemReserved.hugepages-3Mi: 'hugepages-3Mi' does not name a page size; ",
        ),
        ({"evictionHard": {"hugepages-2Mi": "1Gi"}}, "evictionHard.hugepages-2Mi: unknown name; "),
        (
            {"reservedMemory": [{"numaNode": 0, "limits": {"hugepages-2Mi": "3Mi"}}]},
            (
                "reservedMemory[0].limits.hugepages-2Mi: 3Mi is not a whole number of 2Mi pages; "
                "write a multiple of 2Mi, such as 4Mi"
            ),
        ),
        (
            {"reservedMemory": [{"numaNode": "010", "limits": {"memory": "3Mi"}}]},
            "reservedMemory[0].numaNode: '010' is out of range; write a whole number ",
        ),
    ],
)
def test_typing_errors_are_not_ignored(document: object, problem: str) -> None:
    assert error_of(document).startswith(problem)


def test_places_of_settings() -> None:
    settings = Settings(origins={"logLevel": lambda path: f"file:7{path}"})
    assert settings.place_of(("logLevel",)) == "file:7('logLevel',)"
    assert settings.place_of(("logFile",)) == settings.place_of(()) == ""


def test_an_error_has_its_path() -> None:
    with pytest.raises(SettingsError) as caught:
        settings_from_mapping({"reservedMemory": [{"numaNode": 0, "limits": {"cpu": 1}}]})
    assert caught.value.path == ("reservedMemory", 0, "limits", "cpu")


def amounts(*names: str) -> st.SearchStrategy[dict[str, str]]:
    texts = st.integers(0, 2**40).map(str) | st.integers(0, 2**20).map("{}Mi".format)
    return st.dictionaries(st.sampled_from(names), texts, max_size=3)


RESERVED = amounts("memory", "cpu", "hugepages-2Mi")
PAGES = {"memory": 1, "hugepages-2Mi": 2**21, "hugepages-64Ki": 2**16, "hugepages-1Gi": 2**30}
SETTINGS = st.builds(
    Settings,
    memory_manager_policy=st.sampled_from(table.MEMORY_MANAGER_POLICIES),
    topology_manager_policy=st.sampled_from(table.TOPOLOGY_MANAGER_POLICIES),
    topology_manager_scope=st.sampled_from(table.TOPOLOGY_MANAGER_SCOPES),
    prefer_closest_numa_nodes=st.booleans(),
    max_allowable_numa_nodes=st.none() | st.integers(8, 2**31 - 1),
    reserved_memory=st.lists(
        st.builds(
            Reservation,
            st.integers(0, 1023),
            st.dictionaries(st.sampled_from(sorted(PAGES)), st.integers(0, 2**32), min_size=1).map(
                lambda counts: {name: count * PAGES[name] for name, count in counts.items()}
            ),
        ),
        max_size=4,
    ).map(tuple),
    kube_reserved=RESERVED,
    system_reserved=RESERVED,
    eviction_hard=amounts("memory.available", "nodefs.available", "pid.available"),
    kubelet_config_file=st.none() | st.just("/var/lib/kubelet/config.yaml"),
    state_file=st.none() | st.just("") | st.just("/var/lib/x"),
    metrics_address=st.sampled_from(["", "127.0.0.1:9551", "[::1]:9551", "unix:///run/m"]),
    metrics_textfile=st.sampled_from([None, "/a/b.prom"]),
    when_unsatisfiable=st.sampled_from(table.UNSATISFIABLE_ACTIONS),
    log_level=st.sampled_from(table.LOG_LEVELS),
    log_file=st.none() | st.just("/var/log/x"),
    log_format=st.sampled_from(table.LOG_FORMATS),
)


@given(SETTINGS)
def test_the_mapping_reads_back(settings: Settings) -> None:
    assert settings_from_mapping(settings_to_mapping(settings)) == settings


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from([*FULL, "numaNode", "limits", "memory"]), inner, max_size=3
        )
    ),
    max_leaves=12,
)


@given(JSON)
def test_any_document_is_read_or_refused_on_one_line(document: object) -> None:
    text = ""
    try:
        settings_from_mapping(document)
    except SettingsError as error:
        text = str(error)
    assert "\n" not in text


def test_fail_on_timeout_is_off_unless_it_is_set() -> None:
    assert not settings_from_mapping({}).fail_on_timeout
    assert settings_from_mapping({"failOnTimeout": True}).fail_on_timeout
    assert settings_to_mapping(settings_from_mapping({"failOnTimeout": "true"}))["failOnTimeout"]
    with pytest.raises(SettingsError, match="failOnTimeout"):
        settings_from_mapping({"failOnTimeout": "perhaps"})


def test_every_key_has_value_and_origin() -> None:
    found = module.effective_settings(load_text("\nlogLevel: debug\nstateFile: ''\n", "FILE"))
    assert tuple(found) == module.KEYS
    assert found["logLevel"] == ("debug", "FILE:2")
    assert found["stateFile"] == ("", "FILE:3")
    assert found["logFormat"] == ("auto", "default")
    assert found["logFile"] == (None, "default")
    unset = module.effective_settings(load_text("", "FILE"))["stateFile"]
    assert unset == (table.STATE_FILE, "default")
