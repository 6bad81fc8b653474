"""For whom an earmark is, and what is left of it."""

import pytest

from nri_numamem.engine.core.earmarks import Beneficiary
from nri_numamem.engine.core.events import PodSandbox
from tests.engine.features.earmarks.earmark_host import EarmarkHost, earmark


def _pod(uid: str, namespace: str = "ml", **labels: str) -> PodSandbox:
    return PodSandbox("s", uid, namespace, "train-4", "/kubepods/pod", labels=labels)


@pytest.mark.parametrize(
    ("who", "pod", "expected"),
    [
        (Beneficiary("ml", "u1", "train-4"), _pod("u1"), True),
        (Beneficiary("ml", "u1", "train-4"), _pod("u2"), False),
        (Beneficiary("ml", labels={"app": "train"}), _pod("u1", app="train", x="y"), True),
        (Beneficiary("ml", labels={"app": "train"}), _pod("u1", "shop", app="train"), False),
        (Beneficiary("ml", labels={"app": "train", "x": "z"}), _pod("u1", app="train"), False),
        (Beneficiary("ml", labels={"app": "train"}), _pod("u1"), False),
    ],
)
def test_a_pod_is_included_by_its_uid_or_by_all_labels(
    who: Beneficiary, pod: PodSandbox, expected: bool
) -> None:
    assert who.includes(pod) is expected


def test_the_text_names_the_pod_or_the_labels() -> None:
    assert str(Beneficiary("ml", "u1", "train-4")) == "ml/train-4"
    assert str(Beneficiary("ml", labels={"b": "2", "a": "1"})) == "ml (a=1,b=2)"


def test_what_the_pod_had_before_does_not_count() -> None:
    host = EarmarkHost()
    host.place("big", 100)
    host.make(earmark("e1", "0", 300, to="big"))
    assert host.left("e1") == 300
    host.end("big")  # it may come back with less
    assert host.left("e1") == 300
    host.place("big", 250)
    assert host.left("e1") == 150
