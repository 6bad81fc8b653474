"""The pod annotations that the plugin reads: those of the domain numamem.io."""

from collections.abc import Mapping

ANNOTATION_DOMAIN = ".numamem.io"
MEMORY_POLICY = "memory-policy"
"""The feature whose annotation chooses a memory policy."""
MOVABLE = "movable"
"""The annotation "true": rebalancing plans may name the pod before others (``rebalance``)."""
MOVABLE_ANNOTATION = f"{MOVABLE}{ANNOTATION_DOMAIN}"
"""Its name on a pod."""
NETWORK_HINTS = "network-hints"
"""The feature whose annotation switches network hints off."""
PINNING = "memory"
"""The feature whose annotation says that a memory request is the limit."""
PLACEMENT_STRATEGY = "placement-strategy"
"""The feature whose annotation chooses the placement strategy of a pod."""

# The engine keeps the annotations of every pod, and a pod may have 256 KiB of them.
_COUNT_LIMIT = 256
# Longer than any name with a meaning: Kubernetes limits the part after the slash to 63 characters.
_NAME_CHARACTERS = 128
# Longer than any value that has a meaning, and enough to recognise what was meant.
_VALUE_CHARACTERS = 64


def own_annotations(annotations: Mapping[str, str]) -> dict[str, str]:
    """Return the annotations `FEATURE.numamem.io` and `FEATURE.numamem.io/...`; values are cut.

    If there are more than 256, the first ones by name. Names above the limit are left out, since a
    part of one could be the name of another annotation.
    """
    names = [
        name
        for name in annotations
        if len(name) <= _NAME_CHARACTERS and name.partition("/")[0].endswith(ANNOTATION_DOMAIN)
    ]
    # The order of a protobuf map is arbitrary.
    names.sort()
    return {name: annotations[name][:_VALUE_CHARACTERS] for name in names[:_COUNT_LIMIT]}
