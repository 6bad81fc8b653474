"""A history that a real engine's records make: what explain is tested with."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from nri_numamem.daemon.record_path import HistoryFilter
from nri_numamem.daemon.refusals import Refusals
from nri_numamem.engine.core import events
from nri_numamem.engine.core.policy import Policy
from nri_numamem.engine.engine import Engine
from nri_numamem.engine.records.record import Record
from nri_numamem.engine.setup import new_context
from nri_numamem.numa import CpuSet, Machine, NodeSet, NumaNode
from nri_numamem.observe.history.lines import Entry, read_history
from nri_numamem.observe.history.records import Recorded, read_records
from nri_numamem.observe.history.writer import HistoryWriter
from tests.engine.records.examples import example

GI = 1 << 30
PAGE = GI
START_S = 1_700_000_000


def recorded(
    time_s: float, event: str, request_id: str = "", fields: Mapping[str, object] | None = None
) -> Recorded:
    """Return an entry of the history with its record."""
    record = example(event, fields, request_id=request_id)
    return Recorded(Entry(time_s, event, request_id, fields or {}), record)


def read(state_file: Path) -> tuple[Recorded, ...]:
    """Return the history beside a state file, without damaged entries."""
    entries, damaged = read_records(read_history(state_file).entries)
    assert damaged == 0
    return entries


@dataclass
class Past:
    """A plugin on four nodes of 64 GiB with eight 1Gi pages each, and what it leaves."""

    state_file: Path
    policy: Policy = field(default_factory=Policy)
    now_s: float = float(START_S)

    def __post_init__(self) -> None:
        nodes = tuple(
            NumaNode(
                node,
                64 * GI,
                hugepages={PAGE: 8},
                cpus=CpuSet(range(8 * node, 8 * node + 8)),
                distances={
                    o: 10 if o == node else 12 if o // 2 == node // 2 else 21 for o in range(4)
                },
            )
            for node in range(4)
        )
        self.engine = Engine(new_context(Machine(nodes), self.policy))
        self.logged: list[Record] = []
        self.writer = HistoryWriter(self.state_file, self.logged.append)
        self.filter = HistoryFilter(self.writer.append, self, lambda: self.engine, Refusals(self))
        self.requests = 0

    def monotonic_s(self) -> float:
        return self.now_s

    def wall_s(self) -> float:
        return self.now_s

    def sleep(self, seconds: float) -> None:
        self.now_s += seconds

    def record(self, event: str) -> None:
        """Add a record of the plugin itself."""
        self._add([example(event)])

    def begin(self) -> None:
        """Start, and synchronize with an empty runtime."""
        self._add(self.engine.context.start_records("1.2.3"))
        self.handle(events.Synchronize((), ()))

    def handle(self, event: events.Event) -> str | None:
        """Apply an event 10 s after the last one; return the text of a refusal."""
        self.sleep(10)
        self.requests += 1
        plan = self.engine.decide(event)
        records = self.engine.commit(int(self.now_s))
        self._add(replace(record, request_id=f"1-{self.requests}") for record in records)
        return plan.refusal

    def _add(self, records: Iterable[Record]) -> None:
        for record in records:
            self.filter.add(record)
        self.writer.write()

    def pod(self, name: str, qos: str = "", **fields: object) -> events.PodSandbox:
        """Return a pod NAMESPACE/NAME after its start."""
        namespace, _, short = name.partition("/")
        parent = f"/kubepods/{qos}pod{short}"
        pod = events.PodSandbox(f"s-{short}", f"uid-{short}", namespace, short, parent)
        pod = replace(pod, **fields)  # type: ignore[arg-type]
        self.handle(events.RunPodSandbox(pod))
        return pod

    def create(
        self, pod: events.PodSandbox, name: str, memory_gi: int = 0, **fields: object
    ) -> str | None:
        """Create a container; return the text of a refusal."""
        container = events.Container(
            f"c-{pod.name}-{name}-{self.requests}",
            pod.sandbox_id,
            name,
            memory_gi * GI or None,
        )
        container = replace(container, **fields)  # type: ignore[arg-type]
        return self.handle(events.CreateContainer(pod, container))


def telco(past: Past) -> None:
    """Let pods be placed, refused and not managed, as in the documentation."""
    past.begin()
    past.create(past.pod("db/postgres-0"), "postgres", 40)
    upf = past.pod("telco/upf-7c")
    past.create(upf, "dpdk", 24, hugepage_limits={PAGE: 4 * PAGE}, cpuset_cpus="8-15")
    past.create(past.pod("ml/train-3"), "worker", 90)
    refused = past.pod("telco/upf-8d")
    for _ in range(4):
        past.create(
            refused,
            "dpdk",
            40,
            hugepage_limits={PAGE: 6 * PAGE},
            cpuset_cpus="0-7",
            device_nodes=(NodeSet([0]),),
        )
    front = past.pod("web/front-9", "burstable/", memory_limit_bytes=2 * GI)
    shares = {"cpu_shares": 512, "cpu_limit_millicores": 500}
    past.create(front, "front", 2, **shares)
    past.create(front, "istio-proxy")
    hidden = past.pod("web/hidden", "burstable/", memory_limit_bytes=2 * GI)
    past.create(hidden, "main", 2, **shares)
