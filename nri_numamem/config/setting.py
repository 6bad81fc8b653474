"""The description of one setting; ``config.reference`` has all of them."""

from collections.abc import Iterable
from dataclasses import dataclass

from nri_numamem.kubelet import config_file as kubelet


@dataclass(frozen=True, slots=True)
class Setting:
    """One key of the configuration file."""

    key: str
    """With a dot for a key inside a mapping."""
    type: str
    """In words, or all allowed values."""
    default: str
    """As written in YAML; "" when an unset key is not the same as any value."""
    meaning: str
    """Sentences for operators, in Markdown."""
    flag: str = ""
    """The option of `nri-numamem run` that overrides the key."""

    @property
    def kubelet_key(self) -> str:
        """The key of KubeletConfiguration with the same name and values; "" if there is none."""
        top = self.key.partition(".")[0]
        return self.key if top in (kubelet.POLICY_KEY, *kubelet.KEYS) else ""


def choice(allowed: Iterable[str]) -> str:
    """Return allowed words for `Setting.type`."""
    return ", ".join(f"`{word}`" for word in allowed)
