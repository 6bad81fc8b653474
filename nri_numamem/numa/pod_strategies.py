"""Which placement strategies the annotations of pods may choose."""

from dataclasses import dataclass

from nri_numamem.numa.preferences import Strategy


@dataclass(frozen=True, slots=True)
class PodStrategies:
    """The setting `podPlacementStrategies`."""

    allowed: tuple[Strategy, ...] = ()
    """The strategies that annotations may choose."""
    namespaces: tuple[str, ...] = ()
    """The namespaces whose pods may choose; empty: all."""

    def obstacle(self, namespace: str, text: str) -> str:
        """Return why an annotation of this text has no effect; "" if it has one."""
        if not self.allowed:
            return "podPlacementStrategies.allowed is empty, so annotations choose no strategy"
        if self.namespaces and namespace not in self.namespaces:
            return "podPlacementStrategies.namespaces does not list the pod's namespace"
        if text not in tuple(Strategy):
            return f"it is none of {', '.join(Strategy)}"
        if text not in self.allowed:
            return f"podPlacementStrategies.allowed has only {', '.join(self.allowed)}"
        return ""
