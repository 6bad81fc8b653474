"""The table of all settings: one row for each key, those of the kubelet first.

Keys that the kubelet has too have the kubelet's names, values and meaning. ``config.settings`` has
the fields and reads and writes documents by this table; docs/configuration.md, the example file and
the settings that a reload applies come from it as well.
"""

from nri_numamem.config.claims import CLAIMS
from nri_numamem.config.earmarks import EARMARKS
from nri_numamem.config.features import (
    BURSTABLE_PODS,
    CPU_FOLLOWS_MEMORY,
    MEMORY_NODES,
    NETWORK_HINTS,
    PLACEMENT_STRATEGY,
    POD_STRATEGIES,
    RESIDENCY,
)
from nri_numamem.config.memory_policies import MEMORY_POLICY
from nri_numamem.config.partitions import PARTITIONS
from nri_numamem.config.reservations import AMOUNTS, RESERVATIONS, THRESHOLDS
from nri_numamem.config.setting import (
    BOOLEAN,
    Group,
    Kind,
    Setting,
    absolute_path,
    choice,
    integer,
)
from nri_numamem.config.values import (
    SettingsError,
    SettingsPath,
    read_address,
    read_path,
    show,
)
from nri_numamem.engine.core.policy import REJECT, STATIC
from nri_numamem.kubelet import config_file as kubelet
from nri_numamem.memorymanager.node_allocatable import DEFAULT_EVICTION

# The first value of each is the default. The plugin exists to pin memory, so its default policy
# differs from the kubelet's "None".
MEMORY_MANAGER_POLICIES = (STATIC, "None")
TOPOLOGY_MANAGER_POLICIES = ("best-effort", "none", "restricted", "single-numa-node")
TOPOLOGY_MANAGER_SCOPES = ("container", "pod")
UNSATISFIABLE_ACTIONS = (REJECT, "RunUnpinned")
LOG_LEVELS = ("info", "debug", "warning", "error")
LOG_FORMATS = ("auto", "json", "console")

# The kubelet rejects less than 8 (KEP-4622). Its type is a Go int; no machine has 2^31 nodes.
MAX_ALLOWABLE_LEAST = 8
MAX_ALLOWABLE_MOST = 2**31 - 1

STATE_FILE = "/var/lib/nri-numamem/nri_numamem_state"
LOG_FILE = "/var/log/nri-numamem/nri-numamem.log"
# Debian's directory of the exporter.
_TEXTFILE_EXAMPLE = "/var/lib/prometheus/node-exporter/nri_numamem.prom"


def _read_state_file(path: SettingsPath, value: object) -> str:
    return "" if value == "" else read_path(path, value, f'{STATE_FILE}, or "" for none')


def _read_textfile(path: SettingsPath, value: object) -> str:
    """Return the path of a file that node_exporter reads: only names that end in .prom."""
    name = read_path(path, value, _TEXTFILE_EXAMPLE)
    if not name.endswith(".prom"):
        remedy = f"write a path such as {_TEXTFILE_EXAMPLE}"
        raise SettingsError(path, f"{show(name)} does not end in .prom", remedy)
    return name


_MAX_ALLOWABLE = integer(
    MAX_ALLOWABLE_LEAST, MAX_ALLOWABLE_MOST, f", at least {MAX_ALLOWABLE_LEAST}"
)
# The kubelet's options are text.
_OPTIONS = (
    Setting(
        kubelet.PREFER_CLOSEST,
        "prefer_closest_numa_nodes",
        BOOLEAN._replace(type='`"true"`, `"false"`', write=lambda value: str(value).lower()),
        "Among sets of the same number of NUMA nodes, prefer the set with the smallest distances.",
    ),
    Setting(
        kubelet.MAX_ALLOWABLE,
        "max_allowable_numa_nodes",
        _MAX_ALLOWABLE._replace(write=lambda count: None if count is None else str(count)),
        "Accepted without effect: the number of NUMA nodes is not limited.",
    ),
)

TABLE: tuple[Setting | Group, ...] = (
    Setting(
        kubelet.POLICY_KEY,
        "memory_manager_policy",
        choice(MEMORY_MANAGER_POLICIES),
        "`Static` pins the memory of Guaranteed containers; `None` manages no container. The "
        "kubelet's default is `None`. This key is never copied from `kubeletConfigFile`: the "
        "kubelet's own memory manager must be off while the plugin's is on.",
    ),
    Setting(
        "reservedMemory",
        "reserved_memory",
        RESERVATIONS,
        "Memory and hugepages of each NUMA node that are not for pods. When unset, the sum of "
        "`kubeReserved`, `systemReserved` and `evictionHard` is spread over the nodes in "
        "proportion to their memory. With `kubeletConfigFile` the entries must add up to that sum.",
        flag="--reserved-memory",
    ),
    Setting(
        "topologyManagerPolicy",
        "topology_manager_policy",
        choice(TOPOLOGY_MANAGER_POLICIES),
        "How strictly memory, CPUs and devices must share NUMA nodes. `none` considers memory "
        "only; `best-effort` prefers common nodes; `restricted` rejects a container if no "
        "preferred nodes are common; `single-numa-node` rejects a container that needs several. "
        "The kubelet's default is `none`.",
    ),
    Setting(
        "topologyManagerScope",
        "topology_manager_scope",
        choice(TOPOLOGY_MANAGER_SCOPES),
        "`container` places each container by itself; `pod` places the sum of a pod's containers "
        "when its sandbox starts.",
    ),
    Group("topologyManagerPolicyOptions", _OPTIONS),
    Setting(
        "kubeReserved",
        "kube_reserved",
        AMOUNTS,
        "Resources that the kubelet reserves for Kubernetes daemons; only memory and hugepages "
        "have an effect.",
    ),
    Setting(
        "systemReserved",
        "system_reserved",
        AMOUNTS,
        "Resources that the kubelet reserves for the system; only memory and hugepages "
        "have an effect.",
    ),
    Setting(
        "evictionHard",
        "eviction_hard",
        THRESHOLDS,
        "The kubelet's hard eviction thresholds; only `memory.available` has an effect. It is "
        f"{DEFAULT_EVICTION['memory.available']} when `evictionHard` is unset, and 0 when "
        "`evictionHard` sets other signals only.",
    ),
    Setting(
        "kubeletConfigFile",
        "kubelet_config_file",
        absolute_path("/var/lib/kubelet/config.yaml"),
        "The kubelet's configuration file, such as /var/lib/kubelet/config.yaml. Keys that are "
        "unset here and have a kubelet key are copied from it.",
        flag="--kubelet-config",
    ),
    Setting(
        "stateFile",
        "state_file",
        Kind('absolute path, or `""`', _read_state_file, empty=STATE_FILE),
        "State kept across restarts of the plugin; FILE.lock beside it prevents a second "
        'instance. `""` disables both. With another `--socket` than the default, the default is '
        '`""`.',
        flag="--state-file",
    ),
    Setting(
        "metricsAddress",
        "metrics_address",
        Kind('HOST:PORT, unix://PATH, or `""`', read_address),
        "Address of the HTTP endpoint with the paths /metrics (Prometheus) and /healthz. "
        '`""` disables it.',
        flag="--metrics-address",
        is_live=True,
    ),
    Setting(
        "metricsTextfile",
        "metrics_textfile",
        Kind("absolute path that ends in .prom", _read_textfile),
        "File that gets the metrics every 15 s, for the textfile collector of node_exporter. Its "
        "directory must exist.",
        is_live=True,
    ),
    Setting(
        "whenUnsatisfiable",
        "when_unsatisfiable",
        choice(UNSATISFIABLE_ACTIONS),
        "What happens to a container that no set of NUMA nodes can hold: `Reject` fails its "
        "creation with the reason; `RunUnpinned` starts it without NUMA nodes.",
    ),
    Setting(
        "failOnTimeout",
        "fail_on_timeout",
        BOOLEAN,
        "With `true`, and a runtime with NRI 0.12.5 or newer, a request fails when the plugin "
        "misses the runtime's deadline or its connection ends. This applies to the one request "
        "in flight, of any pod, managed or not: RunPodSandbox, CreateContainer, UpdateContainer, "
        "StopContainer, RemoveContainer, StopPodSandbox or RemovePodSandbox; the kubelet tries it "
        "again. Containers that are created until the plugin is connected again still start "
        "without NUMA nodes, and Synchronize pins them. So does a container whose request the "
        "plugin itself ends after 60 % of the deadline. Without the setting such a request "
        "continues without the plugin.",
        is_live=True,
    ),
    MEMORY_NODES,
    PLACEMENT_STRATEGY,
    POD_STRATEGIES,
    PARTITIONS,
    CPU_FOLLOWS_MEMORY,
    MEMORY_POLICY,
    NETWORK_HINTS,
    BURSTABLE_PODS,
    RESIDENCY,
    CLAIMS,
    EARMARKS,
    Setting(
        "logLevel",
        "log_level",
        choice(LOG_LEVELS),
        "The lowest level that is logged.",
        flag="--log-level",
        is_live=True,
    ),
    Setting(
        "logFile",
        "log_file",
        absolute_path("/var/log/nri-numamem.log"),
        "The log file. When unset, `nri-numamem run` logs to standard error. A plugin that the "
        f"runtime launches logs to the journal, or to {LOG_FILE} without a journal.",
        flag="--log-file",
        is_live=True,
    ),
    Setting(
        "logFormat",
        "log_format",
        choice(LOG_FORMATS),
        "`json` writes one JSON object per line, `console` text for people. `auto` is `console` "
        "on a terminal and `json` elsewhere. The journal always gets fields.",
        flag="--log-format",
        is_live=True,
    ),
)
