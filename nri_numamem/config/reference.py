"""The reference of all settings: what each key takes, its default and its meaning.

``docs/generate.py`` writes docs/configuration.md from this table. A test compares keys and defaults
with ``config.settings``, so a setting without an entry here does not pass.
"""

import textwrap
from collections.abc import Iterator

from nri_numamem.config.reference_placement import PLACEMENT_SETTINGS
from nri_numamem.config.reference_residency import RESIDENCY_SETTINGS
from nri_numamem.config.setting import Setting, choice
from nri_numamem.config.settings import (
    LOG_FORMATS,
    LOG_LEVELS,
    MAX_ALLOWABLE_LEAST,
    MEMORY_MANAGER_POLICIES,
    STATE_FILE,
    TOPOLOGY_MANAGER_POLICIES,
    TOPOLOGY_MANAGER_SCOPES,
    UNSATISFIABLE_ACTIONS,
)
from nri_numamem.kubelet import config_file as kubelet
from nri_numamem.memorymanager.node_allocatable import DEFAULT_EVICTION

LOG_FILE = "/var/log/nri-numamem/nri-numamem.log"
_WIDTH = 100
_AMOUNTS = "mapping of resource to amount"


SETTINGS = (
    Setting(
        kubelet.POLICY_KEY,
        choice(MEMORY_MANAGER_POLICIES),
        MEMORY_MANAGER_POLICIES[0],
        "`Static` pins the memory of Guaranteed containers; `None` manages no container. The "
        "kubelet's default is `None`. This key is never copied from `kubeletConfigFile`: the "
        "kubelet's own memory manager must be off while the plugin's is on.",
    ),
    Setting(
        "reservedMemory",
        "list of `numaNode` and `limits` (resource: amount)",
        "[]",
        "Memory and hugepages of each NUMA node that are not for pods. When unset, the sum of "
        "`kubeReserved`, `systemReserved` and `evictionHard` is spread over the nodes in "
        "proportion to their memory. With `kubeletConfigFile` the entries must add up to that sum.",
        flag="--reserved-memory",
    ),
    Setting(
        "topologyManagerPolicy",
        choice(TOPOLOGY_MANAGER_POLICIES),
        TOPOLOGY_MANAGER_POLICIES[0],
        "How strictly memory, CPUs and devices must share NUMA nodes. `none` considers memory "
        "only; `best-effort` prefers common nodes; `restricted` rejects a container if no "
        "preferred nodes are common; `single-numa-node` rejects a container that needs several. "
        "The kubelet's default is `none`.",
    ),
    Setting(
        "topologyManagerScope",
        choice(TOPOLOGY_MANAGER_SCOPES),
        TOPOLOGY_MANAGER_SCOPES[0],
        "`container` places each container by itself; `pod` places the sum of a pod's containers "
        "when its sandbox starts.",
    ),
    Setting(
        f"topologyManagerPolicyOptions.{kubelet.PREFER_CLOSEST}",
        '`"true"`, `"false"`',
        '"true"',
        "Among sets of the same number of NUMA nodes, prefer the set with the smallest distances.",
    ),
    Setting(
        f"topologyManagerPolicyOptions.{kubelet.MAX_ALLOWABLE}",
        f"whole number, at least {MAX_ALLOWABLE_LEAST}",
        "",
        "Accepted without effect: the number of NUMA nodes is not limited.",
    ),
    Setting(
        "kubeReserved",
        _AMOUNTS,
        "{}",
        "Resources that the kubelet reserves for Kubernetes daemons; only memory and hugepages "
        "have an effect.",
    ),
    Setting(
        "systemReserved",
        _AMOUNTS,
        "{}",
        "Resources that the kubelet reserves for the system; only memory and hugepages "
        "have an effect.",
    ),
    Setting(
        "evictionHard",
        "mapping of eviction signal to amount or percentage",
        "{}",
        "The kubelet's hard eviction thresholds; only `memory.available` has an effect. It is "
        f"{DEFAULT_EVICTION['memory.available']} when `evictionHard` is unset, and 0 when "
        "`evictionHard` sets other signals only.",
    ),
    Setting(
        "kubeletConfigFile",
        "absolute path",
        "",
        "The kubelet's configuration file, such as /var/lib/kubelet/config.yaml. Keys that are "
        "unset here and have a kubelet key are copied from it.",
        flag="--kubelet-config",
    ),
    Setting(
        "stateFile",
        'absolute path, or `""`',
        STATE_FILE,
        "State kept across restarts of the plugin; FILE.lock beside it prevents a second "
        'instance. `""` disables both. With another `--socket` than the default, the default is '
        '`""`.',
        flag="--state-file",
    ),
    Setting(
        "metricsAddress",
        'HOST:PORT, unix://PATH, or `""`',
        '""',
        "Address of the HTTP endpoint with the paths /metrics (Prometheus) and /healthz. "
        '`""` disables it.',
        flag="--metrics-address",
    ),
    Setting(
        "metricsTextfile",
        "absolute path that ends in .prom",
        "",
        "File that gets the metrics every 15 s, for the textfile collector of node_exporter. Its "
        "directory must exist.",
    ),
    Setting(
        "whenUnsatisfiable",
        choice(UNSATISFIABLE_ACTIONS),
        UNSATISFIABLE_ACTIONS[0],
        "What happens to a container that no set of NUMA nodes can hold: `Reject` fails its "
        "creation with the reason; `RunUnpinned` starts it without NUMA nodes.",
    ),
    Setting(
        "failOnTimeout",
        "true or false",
        "false",
        "With `true`, and a runtime with NRI 0.12.5 or newer, a request fails when the plugin "
        "misses the runtime's deadline or its connection ends meanwhile. That is the one request "
        "in flight, of any pod, managed or not: RunPodSandbox, CreateContainer, UpdateContainer, "
        "StopContainer, RemoveContainer, StopPodSandbox or RemovePodSandbox; the kubelet tries it "
        "again. Containers that are created until the plugin is connected again still start "
        "without NUMA nodes, and Synchronize pins them. So does a container whose request the "
        "plugin itself ends after 60 % of the deadline. Without the setting such a request "
        "continues without the plugin.",
    ),
    *PLACEMENT_SETTINGS,
    *RESIDENCY_SETTINGS,
    Setting(
        "logLevel",
        choice(LOG_LEVELS),
        LOG_LEVELS[0],
        "The lowest level that is logged.",
        flag="--log-level",
    ),
    Setting(
        "logFile",
        "absolute path",
        "",
        "The log file. When unset, `nri-numamem run` logs to standard error. A plugin that the "
        f"runtime launches logs to the journal, or to {LOG_FILE} without a journal.",
        flag="--log-file",
    ),
    Setting(
        "logFormat",
        choice(LOG_FORMATS),
        LOG_FORMATS[0],
        "`json` writes one JSON object per line, `console` text for people. `auto` is `console` "
        "on a terminal and `json` elsewhere. The journal gets fields in any case.",
        flag="--log-format",
    ),
)

_HEAD = """\
<!-- Generated by docs/generate.py; do not edit. -->
# Configuration reference

The configuration is YAML or JSON. All keys are optional, and a key without a value counts as unset.
`nri-numamem run` reads /etc/nri-numamem/config.yaml or the file of `--config`; a plugin that the
runtime launches gets its configuration from the runtime. Keys marked "kubelet" have the name,
the values and the meaning of the same key in KubeletConfiguration. An unknown key or an invalid
value is an error that names file, line, key and remedy.

Amounts are Kubernetes quantities such as `512Mi`. Resources are `memory` and hugepages by size,
such as `hugepages-2Mi`.
"""


def reference_text() -> str:
    """Return the text of docs/configuration.md."""
    return "\n".join((_HEAD, *map(_section, SETTINGS)))


def _section(setting: Setting) -> str:
    return "\n".join(_section_lines(setting))


def _section_lines(setting: Setting) -> Iterator[str]:
    yield f"## {setting.key}"
    yield ""
    yield f"- Values: {setting.type}"
    yield f"- Default: `{setting.default}`" if setting.default else "- Default: unset"
    if setting.kubelet_key:
        yield f"- Kubelet: `{setting.kubelet_key}`"
    if setting.flag:
        yield f"- Flag: `{setting.flag}`"
    yield ""
    yield textwrap.fill(setting.meaning, _WIDTH, break_long_words=False, break_on_hyphens=False)
    yield ""
