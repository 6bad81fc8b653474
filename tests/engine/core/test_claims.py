"""Claims in the engine's state: what containers leave of them."""

from nri_numamem.engine.core.claims import ChargedClaim, ClaimUser
from nri_numamem.memorymanager.claims import Claim

CLAIM = Claim("a", "ns", "c", {"m": {0: {"memory": 10}}, "n": {0: {"memory": 5}, 1: {"memory": 1}}})


def user(container_id: str, request: str, **held: int) -> ClaimUser:
    return ClaimUser(container_id, "s", "u", "ns", "p", "c", frozenset({request}), held)


def test_what_other_users_of_a_request_have_is_not_left() -> None:
    claim = ChargedClaim(CLAIM).with_user(user("1", "m", memory=4, other=3))
    both = frozenset({"m", "n"})
    assert claim.left_bytes(frozenset({"m"}), "2") == {"memory": 6}
    assert claim.left_bytes(frozenset({"m"}), "1") == {"memory": 10}
    assert claim.left_bytes(frozenset({"n"}), "2") == {"memory": 6}
    assert claim.left_bytes(both, "2") == {"memory": 12}
    more = claim.with_user(user("3", "n", memory=100))
    assert more.left_bytes(both, "2") == {"memory": 0}
    assert more.without_users(["1", "3"]).users == {}
