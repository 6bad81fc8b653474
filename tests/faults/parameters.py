"""The random parameters of a life on a runtime: NRI version, traits, plugin configuration."""

import json
import random
from dataclasses import dataclass, field
from pathlib import Path

from tests.conformance.catalog import GO_VERSIONS
from tests.faults.go_harness_runtime import GoHarnessRuntime
from tests.faults.host import LifeHost
from tests.faults.in_process_runtime import InProcessRuntime
from tests.faults.node import RuntimeTraits
from tests.faults.proxy import SocketProxy
from tests.faults.runtimes import Runtime
from tests.laboratory.version import RuntimeVersion
from tests.sequences.settings import LifeSettings

ALL, FAKE = "all", "fake"

_FAKE = (
    RuntimeVersion("containerd", "v1.7.6", (0, 3, 0)),
    RuntimeVersion("containerd", "v1.7.25", (0, 6, 1)),
    RuntimeVersion("containerd", "v2.1.0", (0, 8, 0)),
    RuntimeVersion("cri-o", "1.33.0", (0, 9, 1)),
    RuntimeVersion("cri-o", "1.35.0", (0, 11, 0)),
    RuntimeVersion("containerd", "v2.3.4", (0, 12, 0)),
)


@dataclass(frozen=True)
class Parameters:
    """All choices that a life on a runtime makes before it begins."""

    traits: RuntimeTraits
    is_launched: bool
    version: str | RuntimeVersion
    request_timeout_ms: int
    has_state_file: bool
    settings: LifeSettings
    variations: dict[str, bool] = field(default_factory=dict)
    config: str = ""

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
            "state file" if self.has_state_file else "no state file",
            f"{self.request_timeout_ms} ms",
            f"{self.settings}",
        ]
        return ", ".join(words)


def choose(rng: random.Random, host: LifeHost, settings: LifeSettings, kinds: str) -> Parameters:
    """Choose the parameters."""
    versions: list[str | RuntimeVersion] = [*_FAKE]
    if kinds == ALL:
        versions += [*GO_VERSIONS, *GO_VERSIONS]
    version = rng.choice(versions)
    is_crio = rng.random() < 0.3
    if isinstance(version, RuntimeVersion):
        is_crio = version.is_crio
    is_launched = rng.random() < 0.3
    has_state_file = rng.random() < 0.7
    log = host.choose_log(is_launched=is_launched, is_on_disk=rng.random() < 0.5)
    config = {
        **settings.document(),
        "stateFile": str(host.state_file) if has_state_file else "",
        "logFile": str(log),
        "logFormat": "json",
    }
    return Parameters(
        RuntimeTraits(is_crio, hides_hugepages=rng.random() < (0.1 if is_crio else 0.6)),
        is_launched,
        version,
        rng.choice((500, 800)),
        has_state_file,
        settings,
        {"configure_first": rng.random() < 0.2, "small_parts": rng.random() < 0.2},
        json.dumps(config, indent=1),
    )
