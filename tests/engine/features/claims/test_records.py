"""Records of claims name the claim and bound what users of a cluster can choose."""

from nri_numamem.engine.core.claims import ChargedClaim
from nri_numamem.engine.features.claims import records
from nri_numamem.engine.records.plain import fields_of
from tests.engine.features.claims.claim_host import ClaimHost, claim_of


def test_free_bytes_are_those_of_the_claims_resources() -> None:
    accounting = ClaimHost().engine.state.accounting
    claim = claim_of("a", mem={1: {"memory": 3}, 0: {"memory": 2}}, pages={0: {"hugepages-2Mi": 4}})
    found = fields_of(records.rejected(accounting, claim, "no room"))
    assert found["charged_bytes"] == {
        "0": {"memory": 2 << 20, "hugepages-2Mi": 4 << 20},
        "1": {"memory": 3 << 20},
    }
    assert found["free_bytes"] == {
        "0": {"memory": 928 << 20, "hugepages-2Mi": 32 << 20},
        "1": {"memory": 928 << 20, "hugepages-2Mi": 32 << 20},
    }
    assert found["message"] == "no room"
    assert fields_of(records.released(claim))["nodes"] == "0-1"
    assert fields_of(records.in_use(ChargedClaim(claim)))["containers"] == []
