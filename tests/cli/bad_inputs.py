"""A hundred wrong inputs of the commands: what is written where, and what the error must name.

A case has the arguments, the text of the file that they name as FILE, and words of the error line:
the place, then the problem or the remedy.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class BadInput:
    """One wrong input."""

    name: str
    arguments: str
    """Words of the command line; FILE, STATE and MACHINE are paths."""
    text: str = ""
    """Content of FILE."""
    words: tuple[str, ...] = ()
    """Parts of the error."""
    status: int = 2


def _config(name: str, text: str, *words: str) -> BadInput:
    return BadInput(name, "config check FILE --machine MACHINE", text, words)


def _scenario(name: str, text: str, *words: str) -> BadInput:
    return BadInput(name, "simulate FILE", text, words)


def _steps(name: str, steps: str, *words: str) -> BadInput:
    return _scenario(name, f"{_BASE}steps: {steps}\n", *words)


def _pod(name: str, pod: str, *words: str) -> BadInput:
    text = f"machine: {{nodes: [{{id: 0, memory: 1Gi}}]}}\npods: [{pod}]\n"
    return _scenario(name, text, *words)


def _containers(containers: str) -> str:
    return f"{{metadata: {{name: a, uid: a}}, spec: {{containers: [{containers}]}}}}"


_BASE = """\
machine: {nodes: [{id: 0, memory: 8Gi}, {id: 1, memory: 8Gi}]}
pods:
- metadata: {name: a, uid: a}
  spec: {containers: [{name: main, resources: {limits: {cpu: 1, memory: 1Gi}}}]}
"""

CONFIGURATIONS = (
    _config("unknown key", "memoryPolicy: Static\n", "FILE:1", "memoryPolicy"),
    _config("misspelt key", "reservedMemry: []\n", "FILE:1", "reservedMemory"),
    _config("unknown policy", "memoryManagerPolicy: static\n", "FILE:1", "Static"),
    _config("unknown topology policy", "topologyManagerPolicy: best\n", "FILE:1", "best-effort"),
    _config("unknown scope", "topologyManagerScope: node\n", "FILE:1", "container"),
    _config("list for a mapping", "[1, 2]\n", "FILE"),
    _config("text for a mapping", "Static\n", "FILE"),
    _config("tab", "reservedMemory:\n\t- numaNode: 0\n", "FILE:2", "indentation"),
    _config("unclosed bracket", "reservedMemory: [\n", "FILE"),
    _config("duplicate key", "logLevel: info\nlogLevel: debug\n", "FILE:2", "logLevel"),
    _config("not UTF-8", "logLevel: \udcff\n", "FILE", "UTF-8"),
    _config("NUL", "logLevel: in\0fo\n", "FILE"),
    _config("two documents", "logLevel: info\n---\nlogLevel: debug\n", "FILE:2"),
    _config("alias", "a: &x 1\nb: *x\n", "FILE"),
    _config("whole kubelet file", "kind: KubeletConfiguration\n", "FILE:1", "kubeletConfigFile"),
    _config("negative node", "reservedMemory: [{numaNode: -1, limits: {memory: 1Gi}}]\n", "FILE:1"),
    _config("missing node", "reservedMemory: [{numaNode: 9, limits: {memory: 1Gi}}]\n", "FILE:1"),
    _config("node as text", 'reservedMemory: [{numaNode: "x", limits: {memory: 1Gi}}]\n', "FILE:1"),
    _config("no limits", "reservedMemory: [{numaNode: 0}]\n", "FILE:1", "limits"),
    _config("zero limit", "reservedMemory: [{numaNode: 0, limits: {memory: 0}}]\n", "FILE:1"),
    _config("too much", "reservedMemory: [{numaNode: 0, limits: {memory: 65Gi}}]\n", "FILE:1"),
    _config(
        "node twice",
        (
            "reservedMemory:\n- {numaNode: 0, limits: {memory: 1Gi}}\n"
            "- {numaNode: 0, limits: {memory: 1Gi}}\n"
        ),
        "FILE:3",
    ),
    _config("unit", "reservedMemory: [{numaNode: 0, limits: {memory: 1GB}}]\n", "FILE:1", "1GB"),
    _config("resource", "reservedMemory: [{numaNode: 0, limits: {cpu: 1}}]\n", "FILE:1", "cpu"),
    _config(
        "page size", "reservedMemory: [{numaNode: 0, limits: {hugepages-3Mi: 3Mi}}]\n", "FILE:1"
    ),
    _config(
        "half a page", "reservedMemory: [{numaNode: 0, limits: {hugepages-2Mi: 3Mi}}]\n", "FILE:1"
    ),
    _config("signal", "evictionHard: {memory.availabel: 1Gi}\n", "FILE:1", "memory.available"),
    _config("percentage", 'evictionHard: {memory.available: "110%"}\n', "FILE:1", "110%"),
    _config("reservable", "kubeReserved: {memry: 1Gi}\n", "FILE:1", "memory"),
    _config("sexagesimal", "reservedMemory: [{numaNode: 1:30, limits: {memory: 1Gi}}]\n", "FILE:1"),
    _config("underscores", "reservedMemory: [{numaNode: 0, limits: {memory: 1_000}}]\n", "FILE:1"),
    _config("octal", "reservedMemory: [{numaNode: 010, limits: {memory: 1Gi}}]\n", "FILE:1"),
    _config("relative path", "stateFile: state\n", "FILE:1", "absolute"),
    _config("relative log", "logFile: numamem.log\n", "FILE:1", "absolute"),
    _config("port", "metricsAddress: 127.0.0.1\n", "FILE:1", "metricsAddress"),
    _config("large port", "metricsAddress: 127.0.0.1:99999\n", "FILE:1"),
    _config("level", "logLevel: verbose\n", "FILE:1", "debug"),
    _config("format", "logFormat: xml\n", "FILE:1", "json"),
    _config("boolean", "failOnTimeout: maybe\n", "FILE:1"),
    _config("option", "topologyManagerPolicyOptions: {prefer-closest: true}\n", "FILE:1"),
    _config(
        "few nodes", 'topologyManagerPolicyOptions: {max-allowable-numa-nodes: "4"}\n', "FILE:1"
    ),
    _config("action", "whenUnsatisfiable: Wait\n", "FILE:1", "RunUnpinned"),
    _config("class", "memoryNodes: {withoutCpus: never}\n", "FILE:1", "exclude"),
    _config("override", 'memoryNodes: {override: {"0-": dram}}\n', "FILE:1"),
    _config("no such kubelet file", "kubeletConfigFile: /nowhere/config.yaml\n", "/nowhere"),
    _config("sum rule", "kubeReserved: {memory: 20Gi}\n", "FILE"),
)

SCENARIOS = (
    _scenario("empty scenario", "", "FILE", "machine"),
    _scenario(
        "no machine", _BASE.partition("\n")[2] + "steps: [{admit: {pod: a}}]\n", "FILE", "machine"
    ),
    _scenario("no nodes", "machine: {nodes: []}\nsteps: []\n", "FILE:1"),
    _scenario(
        "node twice in a machine",
        "machine: {nodes: [{id: 0, memory: 1Gi}, {id: 0, memory: 1Gi}]}\n",
        "FILE:1",
    ),
    _scenario("node without memory", "machine: {nodes: [{id: 0}]}\n", "FILE:1", "memory"),
    _scenario("negative memory", "machine: {nodes: [{id: 0, memory: -1Gi}]}\n", "FILE:1"),
    _scenario("much memory", "machine: {nodes: [{id: 0, memory: 99Ei}]}\n", "FILE:1"),
    _scenario(
        "unknown page size",
        "machine: {nodes: [{id: 0, memory: 1Gi, hugepages: {x: 1}}]}\n",
        "FILE:1",
    ),
    _scenario(
        "distance", "machine: {nodes: [{id: 0, memory: 1Gi, distances: {7: 20}}]}\n", "FILE:1", "7"
    ),
    _scenario(
        "small distance", "machine: {nodes: [{id: 0, memory: 1Gi, distances: far}]}\n", "FILE:1"
    ),
    _scenario("cpu list", "machine: {nodes: [{id: 0, memory: 1Gi, cpus: 3-1}]}\n", "FILE:1", "3-1"),
    _scenario(
        "unknown key of a scenario", "machine: {nodes: [{id: 0, memory: 1Gi}]}\npod: []\n", "FILE:2"
    ),
    _scenario(
        "unknown policy of a scenario",
        "machine: {nodes: [{id: 0, memory: 1Gi}]}\nconfig: {topologyManagerPolicy: x}\n",
        "FILE:2",
    ),
    _pod(
        "pod without name",
        "{metadata: {uid: a}, spec: {containers: []}}",
        "FILE:2",
    ),
    _pod(
        "no containers",
        _containers(""),
        "FILE:2",
        "containers",
    ),
    _pod(
        "container without name",
        _containers("{}"),
        "FILE:2",
        "name",
    ),
    _pod(
        "container twice",
        _containers("{name: x}, {name: x}"),
        "FILE:2",
        "x",
    ),
    _pod(
        "request above limit",
        _containers("{name: x, resources: {limits: {memory: 1Gi}, requests: {memory: 2Gi}}}"),
        "FILE:2",
    ),
    _pod(
        "amount",
        _containers("{name: x, resources: {limits: {memory: lots}}}"),
        "FILE:2",
        "lots",
    ),
    _pod(
        "half a page of a pod",
        _containers("{name: x, resources: {limits: {memory: 1Gi, hugepages-2Mi: 3Mi}}}"),
        "FILE:2",
    ),
    _steps("no such step", "[{start: {pod: a}}]", "FILE:5", "admit"),
    _steps("no such pod", "[{admit: {pod: b}}]", "FILE:5", "b"),
    _steps("pod as text", "[{admit: a}]", "FILE:5"),
    _steps("steps as mapping", "{admit: {pod: a}}", "FILE:5"),
    _steps("two in one step", "[{admit: {pod: a}, remove: {pod: a}}]", "FILE:5"),
    _steps("removal of a container", "[{remove: {pod: a, container: x}}]", "FILE:5", "container"),
    _steps(
        "unknown container", "[{admit: {pod: a}}, {stop: {pod: a, container: x}}]", "FILE:5", "x"
    ),
    _steps(
        "resize of an unknown container",
        "[{admit: {pod: a}}, {resize: {pod: a, container: x, memory: 2Gi}}]",
        "FILE:5",
        "x",
    ),
    _steps("unknown verb", "[{merge: {}}]", "FILE:5", "merge"),
)

ARGUMENTS = (
    BadInput("no such command", "simulat", "", ("simulate",)),
    BadInput("no such option", "run --log-leve debug", "", ("--log-level",)),
    BadInput("no such level", "run --log-level debg", "", ("debug",)),
    BadInput("no such action", "config chek", "", ("check",)),
    BadInput("no file", "simulate /nowhere/scenario.yaml", "", ("/nowhere/scenario.yaml",)),
    BadInput("a directory", "simulate /", "", ("/: Is a directory",)),
    BadInput("index", "run --idx 1", "", ("two digits",)),
    BadInput("name", "run --name a/b", "", ("name",)),
    BadInput("empty name", "run --name=", "", ("name",)),
    BadInput("long socket", f"run --socket /{'x' * 120}", "", ("107",)),
    BadInput("reserved memory flag", "run --reserved-memory 0:memory", "", ("--reserved-memory",)),
    BadInput("metrics address flag", "run --metrics-address nowhere", "", ("HOST:PORT",)),
    BadInput("no sysfs", "inspect --sysfs-root /nowhere", "", ("/nowhere",)),
    BadInput("no configuration", "run --config /nowhere.yaml", "", ("/nowhere.yaml",)),
    BadInput("state that is no state", "state show FILE", "{}", ("FILE", "not a state file"), 1),
    BadInput("state that is no JSON", "state show FILE", "policyName", ("FILE", "truncated"), 1),
    BadInput(
        "state of CPUs",
        "state show FILE",
        '{"policyName": "static", "defaultCpuSet": "0-3"}',
        ("FILE", "memory_manager_state"),
        1,
    ),
    BadInput("dump that is no dump", "state export FILE", "{}", ("FILE",)),
    BadInput(
        "reserve without a kubelet file",
        "reserve --machine MACHINE --kubelet /nowhere",
        "",
        ("/nowhere",),
    ),
    BadInput(
        "reserve for a dead process",
        "reserve --machine MACHINE --kubelet 999999999",
        "",
        ("999999999",),
    ),
    BadInput(
        "reserve with another error", "reserve --machine MACHINE --error nonsense", "", ("--error",)
    ),
    BadInput(
        "reserve with a wrong file",
        "reserve --machine MACHINE --kubelet FILE",
        "kind: Pod\n",
        ("FILE",),
    ),
    BadInput(
        "machine without machine",
        "config check /dev/null --machine FILE",
        "a: 1\n",
        ("FILE", "machine"),
    ),
    BadInput("reset with a directory", "reset --state-file /etc --dry-run", "", ("/etc",)),
    *(
        BadInput(f"{command} with the root directory", f"{command} --state-file /", "", ("'/'",))
        for command in ("reset", "status", "explain x", "gather")
    ),
    BadInput("claim of text", "claim lots", "", ("MEMORY: 'lots'", "such as 512Mi")),
    BadInput("claim of nothing", "claim 0", "", ("MEMORY: 0", "at least 4Ki")),
    BadInput(
        "claim of a negative amount", "claim 1Gi --hugepages-2Mi=-2Mi", "", ("-2Mi", "least 0")
    ),
    BadInput(
        "claim below a page", "claim 1Gi --hugepages-1Gi 512Mi", "", ("--hugepages-1Gi", "1Gi")
    ),
    BadInput(
        "claim below a page on each node",
        "claim 1Gi --hugepages-1Gi 1Gi --nodes 2",
        "",
        ("--hugepages-1Gi: 1Gi", "each of 2 NUMA nodes", "at least 2Gi"),
    ),
    BadInput("claim of half a CPU", "claim 1Gi --cpus 1500m", "", ("--cpus: 1500m", "give 1 or")),
    BadInput("claim of no CPU", "claim 1Gi --cpus 0", "", ("--cpus: 0", "give 1 or")),
    BadInput("claim of odd CPUs", "claim 1Gi --cpus 9 --nodes 2", "", ("--cpus: 9", "give 10")),
    BadInput("claim of CPUs as text", "claim 1Gi --cpus many", "", ("--cpus: 'many'",)),
    BadInput("claim of many nodes", "claim 1Gi --nodes 9", "", ("--nodes", "7, 8")),
    BadInput("claim of many groups", "claim 1Gi --nodes 7 --cpus 7", "", ("--nodes", "give 6")),
    BadInput("claim of a wrong class", "claim 1Gi --with A_", "", ("--with: 'A_'", "deviceclass")),
    BadInput(
        "claim of many devices",
        f"claim 1Gi{' --with a' * 33}",
        "",
        ("--with: the claim has 34 devices", "leave out 2"),
    ),
    BadInput("claim with a wrong name", "claim 1Gi --name a.b", "", ("--name: 'a.b'", "63")),
    BadInput("status of a damaged configuration", "status --config FILE", "x: 1\n", ("FILE:1",)),
)

ALL = (*CONFIGURATIONS, *SCENARIOS, *ARGUMENTS)
