"""Try the resource claims of pods: on which NUMA nodes the scheduler could allocate them.

A pod with claims of memory is not tried as one without: its containers get the NUMA nodes of the
claims that they name. Devices of other drivers are not considered.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from nri_numamem.engine.core.context import Context
from nri_numamem.engine.core.state import EngineState
from nri_numamem.export.claimfit import ClaimFit, ClaimSpecError, fit_claim
from nri_numamem.export.noderesourcetopology import Host
from nri_numamem.kubelet.claims import CLAIM, ClaimKey, PodClaim, claims_of, users_of
from nri_numamem.kubelet.workload import Workload
from nri_numamem.memorymanager import PoolUse, State
from nri_numamem.memorymanager.claims import ClaimRejection, prepare
from nri_numamem.numa import NodeSet


@dataclass(frozen=True, slots=True)
class ClaimTrial:
    """The result for a claim of a pod."""

    claim: PodClaim
    fit: ClaimFit | None = None
    problem: str = ""
    """Why the claim cannot be evaluated or prepared; "" if it can."""

    @property
    def fits(self) -> bool:
        """Return whether the claim can be allocated."""
        return not self.problem and self.fit is not None and self.fit.chosen is not None

    @property
    def document(self) -> dict[str, Any]:
        """Return the trial for programs; docs/simulate.md documents it."""
        kind, namespace, name = self.claim.source
        fit = self.fit
        return {
            "name": self.claim.name,
            "source": {"kind": kind, "namespace": namespace, "name": name},
            "problem": self.problem or None,
            "requests": [
                {
                    "name": option.name,
                    "resource": option.resource,
                    "bytes": option.size_bytes,
                    "count": option.count,
                    "nodes": [
                        {"id": each.node_id, "free": each.free_bytes, "fits": each.fits(option)}
                        for each in fit.devices
                        if each.resource == option.resource
                    ],
                }
                for option in fit.options
            ]
            if fit
            else [],
            "notConsidered": [*fit.others] if fit else [],
            "allocated": [
                {"request": option.name, "node": device.node_id}
                for option, device in (fit.chosen if fit else None) or ()
            ],
        }


@dataclass(slots=True)
class ClaimTrials:
    """Tries claims one after the other; shared claims are allocated once."""

    context: Context
    pool_use: PoolUse | None
    specs: Mapping[ClaimKey, object]
    names: dict[str, tuple[str, str]] = field(default_factory=dict)
    """Uid of a claim that was allocated -> namespace, and a name with that of the pod."""
    _shared: dict[ClaimKey, ClaimTrial] = field(default_factory=dict)

    def try_pod(
        self, state: EngineState, workload: Workload, uid: str, name: str
    ) -> tuple[State, tuple[ClaimTrial, ...]]:
        """Return the accounting with the claims of a pod, and the trials; none without memory."""
        accounting = state.accounting
        trials: list[ClaimTrial] = []
        for claim in claims_of(workload):
            key = f"claim/{uid}/{claim.name}"
            trial = self._shared.get(claim.source)
            if trial is None:
                accounting, trial = self._try(state.with_accounting(accounting), claim, key)
                self.names[key] = workload.namespace, f"{name} claim {claim.name}"
            trials.append(trial)
        if all(trial.fits for trial in trials):
            shared = (trial for trial in trials if trial.claim.source[0] == CLAIM)
            self._shared |= {trial.claim.source: trial for trial in shared}
        if all(trial.fit is not None and not trial.fit.options for trial in trials):
            return state.accounting, ()  # claims of other drivers
        return accounting, tuple(trials)

    def _try(self, state: EngineState, claim: PodClaim, key: str) -> tuple[State, ClaimTrial]:
        accounting = state.accounting
        if claim.source not in self.specs:
            kind, namespace, name = claim.source
            remedy = (
                f"append the output of kubectl get {kind.lower()} -n {namespace} {name} -o yaml"
            )
            return accounting, ClaimTrial(claim, problem=f"it is not in the file; {remedy}")
        try:
            fit = fit_claim(Host("", self.context, state, self.pool_use), self.specs[claim.source])
        except ClaimSpecError as error:
            return accounting, ClaimTrial(claim, problem=str(error))
        if not fit.amounts:
            return accounting, ClaimTrial(claim, fit)
        charged = prepare(accounting, key, fit.amounts)
        if isinstance(charged, ClaimRejection):
            return accounting, ClaimTrial(claim, fit, f"the plugin would refuse it: {charged}")
        return charged, ClaimTrial(claim, fit)


def nodes_of_containers(
    workload: Workload, trials: tuple[ClaimTrial, ...]
) -> dict[str, str | None]:
    """Return container -> the NUMA nodes of the claims that it names."""
    chosen = {trial.claim.name: trial.fit.chosen or () for trial in trials if trial.fit}
    found: dict[str, str | None] = {}
    for container, named in users_of(workload).items():
        nodes = NodeSet(
            device.node_id
            for claim, request in named
            for option, device in chosen.get(claim, ())
            if request in ("", option.request)
        )
        found[container] = str(nodes) if nodes else None
    return found
