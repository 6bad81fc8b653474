"""Events of resource claims: the kubelet prepares one, and releases it.

A refusal is the plan's, although no runtime waits for it: its text is the kubelet's answer.
"""

from dataclasses import dataclass, replace

from nri_numamem.engine.core.allowed_nodes import rooms_left, set_aside_facts
from nri_numamem.engine.core.claims import ChargedClaim
from nri_numamem.engine.core.context import Context
from nri_numamem.engine.core.decision import NO_PLAN, Decision
from nri_numamem.engine.core.events import FeatureEvent
from nri_numamem.engine.core.fields import PREFIX
from nri_numamem.engine.core.plan import Plan
from nri_numamem.engine.core.state import EngineState, without
from nri_numamem.engine.features.claims import records
from nri_numamem.memorymanager import claims
from nri_numamem.memorymanager.claims import Claim, ClaimRejection
from nri_numamem.memorymanager.earmarks import set_aside
from nri_numamem.memorymanager.hugepage_pools import MaskedState

REMEDY = "delete the pod, so that the scheduler chooses again"


@dataclass(frozen=True, slots=True)
class ClaimPrepared(FeatureEvent):
    """The kubelet prepares a claim, before it starts the sandbox of its first pod."""

    claim: Claim

    def decide(self, context: Context, state: EngineState) -> Decision:
        """Charge the claim, or refuse it with the reason."""
        claim, known = self.claim, state.claims.get(self.claim.uid)
        if known is not None and known.claim.requests == claim.requests:
            pods = known.claim.pods | claim.pods
            same = replace(known, claim=replace(claim, pods=pods), is_prepared=True)
            after = replace(state, claims={**state.claims, claim.uid: same})
            return Decision.computed(NO_PLAN, state if same == known else after)
        rooms = rooms_left(state, lambda each: each.beneficiary.uid != claim.uid)
        masked = set_aside(MaskedState(state.accounting), rooms)
        done = claims.prepare(masked.state, claim.uid, claim.amounts)
        if isinstance(done, ClaimRejection):
            cause = "; ".join((*done.reasons, *set_aside_facts(rooms)))
            text = f"{PREFIX}claim {claim} cannot be prepared: {cause}; {REMEDY}"
            record = records.rejected(masked.state, claim, cause)
            return Decision.computed(Plan(refusal=text), state, record)
        charged = {**state.claims, claim.uid: ChargedClaim(claim)}
        accounting = masked.unmask(done)
        after = replace(state, accounting=accounting, claims=charged)
        return Decision.computed(NO_PLAN, after, records.prepared(accounting, claim))


@dataclass(frozen=True, slots=True)
class ClaimReleased(FeatureEvent):
    """The kubelet has unprepared a claim: no pod of this host needs it any more."""

    uid: str

    def decide(self, context: Context, state: EngineState) -> Decision:
        """Release the claim, or let it end with its last container."""
        known = state.claims.get(self.uid)
        if known is None or not known.is_prepared:
            return Decision.computed(NO_PLAN, state)
        if not known.users:
            return Decision.computed(
                NO_PLAN, released(state, self.uid), records.released(known.claim)
            )
        left = {**state.claims, self.uid: replace(known, is_prepared=False)}
        return Decision.computed(NO_PLAN, replace(state, claims=left), records.in_use(known))


def released(state: EngineState, uid: str) -> EngineState:
    """Return the state without a claim."""
    accounting = claims.unprepare(state.accounting, uid)
    return replace(state, accounting=accounting, claims=without(state.claims, uid))
