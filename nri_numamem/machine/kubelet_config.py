"""What of a kubelet's configuration file matters to the placement of memory.

Takes the parsed document of a KubeletConfiguration and returns the part that the plugin's own
settings have as well, under the same keys and as it was written; whoever reads settings judges
the values. The kubelet's default for evictionHard is filled in, because it counts in the sum of
reserved memory also where nobody wrote it. Flags of the kubelet and its drop-in directory
are not known here.
Source: k8s.io/kubelet/config/v1beta1, KubeletConfiguration.
"""

from collections.abc import Mapping

from nri_numamem.memorymanager.node_allocatable import DEFAULT_EVICTION
from nri_numamem.values import valueclass

_KIND = "KubeletConfiguration"
_TAKEN = (
    "reservedMemory",
    "topologyManagerPolicy",
    "topologyManagerScope",
    "topologyManagerPolicyOptions",
    "kubeReserved",
    "systemReserved",
    "evictionHard",
)
# Later kubelets may have more options; those are none of ours.
_OPTIONS = ("prefer-closest-numa-nodes", "max-allowable-numa-nodes")
_OPTIONS_KEY, _EVICTION_KEY = "topologyManagerPolicyOptions", "evictionHard"
_MERGE_KEY = "mergeDefaultEvictionSettings"


class KubeletConfigError(ValueError):
    """The document is no kubelet's configuration; the text is one line, "PROBLEM; REMEDY"."""

    def __init__(self, path: tuple[str, ...], problem: str) -> None:
        self.path = path
        """The key in question; empty for the document itself."""
        super().__init__(f"{problem}; give the file that the kubelet is started with (--config)")


@valueclass(frozen=True, slots=True)
class KubeletConfig:
    """The part of a kubelet's configuration that matters here."""

    settings: Mapping[str, object]
    """Keys and values as in the plugin's own settings; memoryManagerPolicy is not among them."""
    memory_manager_policy: str
    """What the kubelet's own manager does; "None" is its default."""


def read_kubelet_config(document: object) -> KubeletConfig:
    """Return what matters of a parsed document; KubeletConfigError when it is something else.

    A key without a value counts as left out. With mergeDefaultEvictionSettings, or when there is
    no evictionHard at all, the default threshold of memory.available is added.
    """
    if not isinstance(document, Mapping):
        raise KubeletConfigError((), f"this is no {_KIND}")
    kind = document.get("kind")
    if kind != _KIND:
        path = () if kind is None else ("kind",)
        raise KubeletConfigError(path, f"no 'kind: {_KIND}' in this document")
    taken = {key: document[key] for key in _TAKEN if document.get(key) is not None}
    options = taken.get(_OPTIONS_KEY)
    if isinstance(options, Mapping):
        taken[_OPTIONS_KEY] = {key: options[key] for key in _OPTIONS if key in options}
    eviction = taken.get(_EVICTION_KEY) or {}
    if isinstance(eviction, Mapping) and (not eviction or document.get(_MERGE_KEY) is True):
        taken[_EVICTION_KEY] = {**DEFAULT_EVICTION, **eviction}
    policy = document.get("memoryManagerPolicy")
    return KubeletConfig(taken, policy if isinstance(policy, str) else "None")
