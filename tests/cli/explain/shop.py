"""A host whose engine leaves a history, for ``explain`` on the host as it is now."""

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from nri_numamem.cli.main import main
from nri_numamem.engine.core.events import Container, CreateContainer, PodSandbox, StopPodSandbox
from nri_numamem.host.hugepages import PoolDirectories, read_pool_use
from nri_numamem.observe.history.writer import HistoryWriter
from tests.cli.live.live_host import CHANGED_S, GI, LiveHost, four_nodes

MI = 1 << 20


class Shop:
    """A host whose engine leaves a history."""

    def __init__(self, root: Path, config: str = "") -> None:
        self.host = LiveHost(root, four_nodes(), config)
        self.writer = HistoryWriter(self.host.state_file, lambda _record: None)

    def run(
        self,
        uid: str,
        size: int,
        annotations: Mapping[str, str] = {},
        used: int = 0,
        pages: int = 0,
    ) -> str:
        """Run a pod with one container of `size` GiB, of which it uses `used` MiB."""
        pod = replace(self.host.sandbox(uid, size * GI), annotations=annotations)
        container, plan = self.host.create(pod, "main", size * GI, pages)
        assert plan.adjustment is not None
        mems = plan.adjustment.cpuset_mems
        self.host.write_cgroup(uid, container.container_id, mems, size * GI)
        if used:
            self.host.use(uid, container.container_id, {int(mems): used * MI})
        return mems

    def container(self, uid: str) -> Path:
        """Return the cgroup of a pod's container."""
        return next(self.host.directory(uid).iterdir())

    def end(self, uid: str) -> None:
        pod = next(p for p in self.host.engine.state.pods.values() if p.uid == uid)
        self.host.engine.apply(StopPodSandbox(pod))

    def refuse(self, uid: str, size: int, has_cgroup: bool = True, **facts: Any) -> None:  # noqa: ANN401
        """Refuse a pod with one container."""
        limits = facts.get("hugepage_limits", {})
        pod = PodSandbox("s", uid, "shop", f"{uid}-x", f"/kubepods/pod{uid}", size * GI, limits)
        if has_cgroup:
            self.host.directory(uid).mkdir(parents=True)
            (self.host.directory(uid) / "memory.max").write_text(f"{size * GI}\n")
        container = Container(self.host.new_id(), "s", "main", size * GI, **facts)
        use = read_pool_use(PoolDirectories.find(self.host.root / "sys")) if limits else None
        applied = self.host.engine.apply(CreateContainer(pod, container, use))
        assert applied.rejection is not None
        for record in applied.records:
            self.writer.append(CHANGED_S + 1, record)
        self.writer.write()
        self.host.save()

    def explain(self, name: str, *more: str) -> int:
        words = self.host.arguments()
        at = words.index("--config")
        return main(["explain", name, *more, *words[:at], *words[at + 2 :]])

    def document(self, name: str, capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
        """Return the container in the document."""
        assert self.explain(name, "--output", "json") == 0
        (container,) = json.loads(capsys.readouterr().out)["containers"]
        found: dict[str, Any] = container
        return found

    def plan(self, name: str, capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
        found: dict[str, Any] = self.document(name, capsys)["plan"]
        return found
