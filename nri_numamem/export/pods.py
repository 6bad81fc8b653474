"""The pods that the fingerprint counts: those whose use of the host is in the object.

A pod counts while its cgroup exists. The kubelet removes the cgroup of a pod whose containers have
all ended, and the scheduler plugin counts pods in phase Running. A Guaranteed pod also has to be in
the plugin's state: a fingerprint with a pod whose memory the zones still show as available would
make the scheduler forget what it reserved for that pod.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from nri_numamem.engine.core.state import EngineState


@dataclass(frozen=True, slots=True)
class CountedPods:
    """The pods of a host."""

    names: frozenset[tuple[str, str]]
    """(namespace, name)"""
    unnamed: tuple[str, ...] = ()
    """Uids of pods whose names are not known; without them the fingerprint would be wrong."""


def counted_pods(
    guaranteed: Collection[str],
    others: Collection[str],
    names: Mapping[str, tuple[str, str]],
    state: EngineState,
) -> CountedPods:
    """Return the pods that count.

    `guaranteed` and `others` are the uids of the pods that have a cgroup; `names` maps a uid to
    namespace and name. The kubelet makes a pod's cgroup first, waits for its volumes, and makes
    the directory with its name right before its sandbox. So a pod without a name is Pending and
    does not count, unless the plugin has placed it, or no pod has a name.
    Source: kubelet pkg/kubelet, SyncPod; kuberuntime, createPodSandbox.
    """
    accounted = {uid for uid, _container in state.holders}
    accounted.update(reason.key[0] for reason in state.reasons.unpinned.values())
    uids = sorted({*(uid for uid in guaranteed if uid in accounted), *others})
    return CountedPods(
        frozenset(names[uid] for uid in uids if uid in names),
        tuple(uid for uid in uids if uid not in names and (uid in accounted or not names)),
    )
