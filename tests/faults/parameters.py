"""The random parameters of a life: runtime, NRI version, traits, plugin configuration."""

import random
from dataclasses import dataclass, field
from pathlib import Path

from nri_numamem.numa import Machine, NodeSet
from tests.conformance.catalog import GO_VERSIONS
from tests.faults.go_harness_runtime import GoHarnessRuntime
from tests.faults.host import MI, LifeHost, without_cpus
from tests.faults.in_process_runtime import InProcessRuntime
from tests.faults.memory_policies import Policies, choose_policies
from tests.faults.node import RuntimeTraits
from tests.faults.proxy import SocketProxy
from tests.faults.runtimes import Runtime
from tests.laboratory.version import RuntimeVersion

ALL, FAKE = "all", "fake"

_FAKE = (
    RuntimeVersion("containerd", "v1.7.6", (0, 3, 0)),
    RuntimeVersion("containerd", "v1.7.25", (0, 6, 1)),
    RuntimeVersion("containerd", "v2.1.0", (0, 8, 0)),
    RuntimeVersion("cri-o", "1.33.0", (0, 9, 1)),
    RuntimeVersion("cri-o", "1.35.0", (0, 11, 0)),
    RuntimeVersion("containerd", "v2.3.4", (0, 12, 0)),
)


NETWORK_HINTS = ("off", "off", "secondary", "all")
CPU_FOLLOWINGS = ("off", "off", "prefer", "require")
STRATEGIES = ("lowest-ids", "lowest-ids", "pack", "spread", "balanced-with-cpus")


# Simulated hosts do not show the available memory of their nodes.
BURSTABLE_PODS = "burstablePods: {evidence: [memory-reservation], oomScoreAdj: -500}"


@dataclass(frozen=True)
class Parameters:
    """All choices that a life makes before it begins."""

    traits: RuntimeTraits
    is_launched: bool
    version: str | RuntimeVersion
    request_timeout_ms: int
    reserved: dict[int, int]
    """Node id -> bytes of memory reserved for the host."""
    has_state_file: bool
    policy: str
    scope: str
    unsatisfiable: str
    without_cpus: str
    """memoryNodes.withoutCpus: "exclude", "lastResort" or "use"."""
    variations: dict[str, bool] = field(default_factory=dict)
    config: str = ""
    memory_policies: Policies = field(default_factory=Policies)
    pins_burstable: bool = False
    """Containers of Burstable pods are pinned if their `memory.low` is their limit."""

    def excluded(self, machine: Machine) -> NodeSet:
        """Return the nodes on which the plugin must not place anything."""
        return without_cpus(machine) if self.without_cpus == "exclude" else NodeSet()

    @property
    def places_pods(self) -> bool:
        """Whether pods are placed as a whole."""
        return self.scope == "pod" and self.policy != "none"

    @property
    def keeps_state(self) -> bool:
        """Whether the state file follows the accounting, from the first Synchronize on."""
        return self.has_state_file and not self.forgets_running

    @property
    def forgets_running(self) -> bool:
        """Whether a restarted runtime never reports running containers to its plugin.

        Runtimes up to NRI 0.6.1 do not synchronize the plugins that they launch.
        """
        return self.is_launched and self.nri_version < (0, 7, 0)

    @property
    def nri_version(self) -> tuple[int, ...]:
        """NRI's version as numbers."""
        if isinstance(self.version, str):
            return tuple(int(part) for part in self.version.removeprefix("nri-").split("."))
        return self.version.nri_version

    def side(self, root: Path, proxy: SocketProxy | None) -> Runtime:
        """Return the runtime."""
        name = "cri-o" if self.traits.is_crio else "containerd"
        if isinstance(self.version, str):
            (root / "configs" / "10-nri-numamem.conf").write_text(self.config)
            timeout = f"{self.request_timeout_ms}ms"
            options: dict[str, object] = {"name": name, "request-timeout": timeout}
            return GoHarnessRuntime(self.version, root, proxy, options)
        return InProcessRuntime(
            self.version,
            root,
            proxy,
            request_timeout_s=self.request_timeout_ms / 1000,
            configure_first=self.variations["configure_first"],
            sync_limit_bytes=40_000 if self.variations["small_parts"] else 4 << 20,
            config=self.config,
        )

    def arguments(self, host: LifeHost) -> list[str] | None:
        """Return the arguments of `run`; None for a launched plugin."""
        if self.is_launched:
            return None
        config = host.root / "config.yaml"
        config.write_text(self.config)
        return host.arguments({"--config": config})

    def __str__(self) -> str:
        words = [
            "CRI-O" if self.traits.is_crio else "containerd",
            "hugepages hidden" if self.traits.hides_hugepages else "hugepages shown",
            f"{self.policy}, {self.scope} scope, {self.unsatisfiable}",
            f"nodes without CPUs: {self.without_cpus}",
            "state file" if self.has_state_file else "no state file",
            "Burstable pinned" if self.pins_burstable else "Guaranteed only",
            f"{self.request_timeout_ms} ms",
            f"{self.memory_policies}",
        ]
        return ", ".join(words)


def choose(rng: random.Random, host: LifeHost, kinds: str) -> Parameters:
    """Choose the parameters."""
    versions: list[str | RuntimeVersion] = [*_FAKE]
    if kinds == ALL:
        versions += [*GO_VERSIONS, *GO_VERSIONS]
    version = rng.choice(versions)
    is_crio = rng.random() < 0.3
    if isinstance(version, RuntimeVersion):
        is_crio = version.is_crio
    reserved = {
        node.node_id: rng.randrange(1, 512) * MI
        for node in host.machine.nodes
        if rng.random() < 0.8
        or not node.node_id  # without any entry the plugin derives the reservation
    }
    is_launched = rng.random() < 0.3
    has_state_file = rng.random() < 0.7
    policy = rng.choice(("none", "best-effort", "best-effort", "restricted", "single-numa-node"))
    scope = rng.choice(("container", "container", "pod"))
    unsatisfiable = rng.choice(("Reject", "Reject", "RunUnpinned"))
    action = rng.choice(("exclude", "exclude", "lastResort", "use"))
    # Numbers of its own, so that known seeds go on to play the same lives.
    strategy = random.Random(str(reserved)).choice(STRATEGIES)
    hints = random.Random(strategy + str(reserved)).choice(NETWORK_HINTS)
    following = random.Random(f"cpus {reserved}").choice(CPU_FOLLOWINGS)
    policies = choose_policies(random.Random(f"policies {reserved}"))
    pins_burstable = random.Random(f"burstable {reserved}").random() < 0.4
    traits = RuntimeTraits(is_crio, hides_hugepages=rng.random() < (0.1 if is_crio else 0.6))
    request_timeout_ms = rng.choice((500, 800))
    variations = {"configure_first": rng.random() < 0.2, "small_parts": rng.random() < 0.2}
    log = host.choose_log(is_launched=is_launched, is_on_disk=rng.random() < 0.5)
    lines = [
        f"topologyManagerPolicy: {policy}",
        f"topologyManagerScope: {scope}",
        f"whenUnsatisfiable: {unsatisfiable}",
        f"memoryNodes: {{withoutCpus: {action}}}",
        f"placementStrategy: {strategy}",
        f"networkHints: {hints}",
        f"cpuFollowsMemory: {following}",
        *([policies.line] if policies.is_active else []),
        *([BURSTABLE_PODS] if pins_burstable else []),
        f'stateFile: "{host.state_file if has_state_file else ""}"',
        f"logFile: {log}",
        "logFormat: json",
        *(["reservedMemory:"] if reserved else []),
        *(f"- {{numaNode: {n}, limits: {{memory: {size}}}}}" for n, size in reserved.items()),
    ]
    return Parameters(
        traits,
        is_launched,
        version,
        request_timeout_ms,
        reserved,
        has_state_file,
        policy,
        scope,
        unsatisfiable,
        action,
        variations,
        "".join(f"{line}\n" for line in lines),
        policies,
        pins_burstable,
    )
