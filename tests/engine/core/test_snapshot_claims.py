"""Claims as JSON and back; and what is no claim."""

import json

import pytest

from nri_numamem.engine.core.claims import ChargedClaim, ClaimUser
from nri_numamem.engine.core.json_fields import SnapshotError
from nri_numamem.engine.core.snapshot_claims import claims_in, claims_out
from nri_numamem.memorymanager.claims import Claim

USER = ClaimUser("c1", "s1", "u1", "ns", "pod", "main", frozenset({"m"}), {"memory": 5})
CLAIMS = {
    "a": ChargedClaim(
        Claim("a", "ns", "c", {"m": {0: {"memory": 10}}}, frozenset({"u1"})), users={"c1": USER}
    ),
    "b": ChargedClaim(Claim("b", "ns", "d", {"m": {0: {"memory": 10}}}), is_prepared=False),
}


def test_claims_are_the_same_after_a_round_trip() -> None:
    assert claims_in(json.loads(json.dumps(claims_out(CLAIMS)))) == CLAIMS


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"uid": 1}, "'uid': missing, or not of type str"),
        ({"requests": {"m": "memory"}}, "requests: 'memory' is not RESOURCE@NODE=BYTES"),
        ({"requests": []}, "requests: not an object"),
        ({"users": [1]}, "users: not an object"),
        ({"pods": ""}, "'pods': missing, or not of type list"),
    ],
)
def test_another_document_is_refused(change: dict[str, object], text: str) -> None:
    entry = {**claims_out(CLAIMS)[0], **change}
    with pytest.raises(SnapshotError, match=text):
        claims_in([entry])
