"""A setting states whether the kubelet has the same key."""

from nri_numamem.config.setting import Setting, choice


def setting(key: str) -> Setting:
    return Setting(key, "text", '""', "Meaning.")


def test_keys_of_the_kubelet_are_marked() -> None:
    assert setting("reservedMemory").kubelet_key == "reservedMemory"
    assert setting("topologyManagerPolicyOptions.x").kubelet_key == "topologyManagerPolicyOptions.x"
    assert setting("placementStrategy").kubelet_key == ""


def test_allowed_words_are_marked_as_code() -> None:
    assert choice(["pack", "spread"]) == "`pack`, `spread`"
