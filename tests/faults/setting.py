"""What a life's node is like: runtime, NRI version, habits, and the plugin's configuration."""

import random
from dataclasses import dataclass, field
from pathlib import Path

from nri_numamem.nri.runtime_version import RuntimeVersion
from tests.conformance.catalog import GO_VERSIONS
from tests.faults.embedded_side import EmbeddedSide
from tests.faults.go_side import GoSide
from tests.faults.ground import MI, Ground
from tests.faults.node import Habits
from tests.faults.sides import Side
from tests.faults.wire import Wire

ALL, EMBEDDED = "all", "embedded"

_EMBEDDED = (
    RuntimeVersion("containerd", "v1.7.6", (0, 3, 0)),
    RuntimeVersion("containerd", "v1.7.25", (0, 6, 1)),
    RuntimeVersion("containerd", "v2.1.0", (0, 8, 0)),
    RuntimeVersion("cri-o", "1.33.0", (0, 9, 1)),
    RuntimeVersion("cri-o", "1.35.0", (0, 11, 0)),
    RuntimeVersion("containerd", "v2.3.4", (0, 12, 0)),
)


@dataclass(frozen=True)
class Setting:
    """Everything that a life decides before it begins."""

    habits: Habits
    is_launched: bool
    version: str | RuntimeVersion
    request_timeout_ms: int
    reserved: dict[int, int]
    """Node id -> bytes of memory that are not for pods."""
    has_state_file: bool
    policy: str
    scope: str
    unsatisfiable: str
    oddities: dict[str, bool] = field(default_factory=dict)
    config: str = ""

    @property
    def places_pods(self) -> bool:
        """Whether pods are placed as a whole."""
        return self.scope == "pod" and self.policy != "none"

    @property
    def keeps_state(self) -> bool:
        """Whether the state file follows the books, from the first Synchronize on."""
        return self.has_state_file and not self.forgets_running

    @property
    def forgets_running(self) -> bool:
        """Whether a restarted runtime tells its plugin nothing of what runs.

        Up to NRI 0.6.1 it never synchronizes plugins that it launches.
        """
        return self.is_launched and self.nri_version < (0, 7, 0)

    @property
    def nri_version(self) -> tuple[int, ...]:
        """The numbers of NRI's version."""
        if isinstance(self.version, str):
            return tuple(int(part) for part in self.version.removeprefix("nri-").split("."))
        return self.version.nri_version

    def side(self, root: Path, wire: Wire | None) -> Side:
        """Return the runtime's side."""
        name = "cri-o" if self.habits.is_crio else "containerd"
        if isinstance(self.version, str):
            (root / "configs" / "10-nri-numamem.conf").write_text(self.config)
            timeout = f"{self.request_timeout_ms}ms"
            options: dict[str, object] = {"name": name, "request-timeout": timeout}
            return GoSide(self.version, root, wire, options)
        return EmbeddedSide(
            self.version,
            root,
            wire,
            request_timeout_s=self.request_timeout_ms / 1000,
            configure_first=self.oddities["configure_first"],
            sync_limit_bytes=40_000 if self.oddities["small_parts"] else 4 << 20,
            config=self.config,
        )

    def arguments(self, root: Path) -> list[str] | None:
        """Return the arguments of `run`; None for a plugin that is launched."""
        if self.is_launched:
            return None
        (root / "config.yaml").write_text(self.config)
        options = {
            "--socket": root / "nri.sock",
            "--config": root / "config.yaml",
            "--sysfs-root": root / "sys",
            "--proc-root": root / "proc",
            "--cgroup-root": root / "cgroup",
        }
        return [str(word) for option in options.items() for word in option]

    def __str__(self) -> str:
        words = [
            "CRI-O's habits" if self.habits.is_crio else "containerd's habits",
            "hugepages hidden" if self.habits.hides_hugepages else "hugepages shown",
            f"{self.policy}, {self.scope} scope, {self.unsatisfiable}",
            "state file" if self.has_state_file else "no state file",
            f"{self.request_timeout_ms} ms",
        ]
        return ", ".join(words)


def choose(rng: random.Random, ground: Ground, kinds: str) -> Setting:
    """Choose what the node is like."""
    versions: list[str | RuntimeVersion] = [*_EMBEDDED]
    if kinds == ALL:
        versions += [*GO_VERSIONS, *GO_VERSIONS]
    version = rng.choice(versions)
    is_crio = rng.random() < 0.3
    if isinstance(version, RuntimeVersion):
        is_crio = version.is_crio
    reserved = {
        node.node_id: rng.randrange(1, 512) * MI
        for node in ground.machine.nodes
        if rng.random() < 0.8 or not node.node_id  # with none at all they are derived
    }
    is_launched = rng.random() < 0.3
    has_state_file = rng.random() < 0.7
    policy = rng.choice(("none", "best-effort", "best-effort", "restricted", "single-numa-node"))
    scope = rng.choice(("container", "container", "pod"))
    unsatisfiable = rng.choice(("Reject", "Reject", "RunUnpinned"))
    lines = [
        f"topologyManagerPolicy: {policy}",
        f"topologyManagerScope: {scope}",
        f"whenUnsatisfiable: {unsatisfiable}",
        f'stateFile: "{ground.state_file if has_state_file else ""}"',
        f"logFile: {ground.own_log(is_launched=is_launched)}",
        "logFormat: json",
        *(["reservedMemory:"] if reserved else []),
        *(f"- {{numaNode: {n}, limits: {{memory: {size}}}}}" for n, size in reserved.items()),
    ]
    return Setting(
        Habits(is_crio, hides_hugepages=rng.random() < (0.1 if is_crio else 0.6)),
        is_launched,
        version,
        rng.choice((500, 800)),
        reserved,
        has_state_file,
        policy,
        scope,
        unsatisfiable,
        {"configure_first": rng.random() < 0.2, "small_parts": rng.random() < 0.2},
        "".join(f"{line}\n" for line in lines),
    )
