"""Differences between the NRI versions of container runtimes, as properties of RuntimeVersion.

All comparisons of version numbers are here. Sources: the tags of containerd/nri (adaptation.go,
plugin.go, mux.go) and the versions that containerd 1.7 to 2.4 and CRI-O 1.26 to 1.36 embed.
"""

from dataclasses import dataclass

# mux.go: the largest payload of one frame. Larger writes failed before 0.7.0 and are split since.
MAX_FRAME_PAYLOAD_BYTES = (4 << 20) + 10
OLD_MAX_FRAME_PAYLOAD_BYTES = 16 << 20

# event.go: bit (event number - 1) for each event that a plugin may subscribe to.
EVENTS_UNTIL_0_9 = 0x07FF
EVENTS_OF_0_9_1 = 0x1FFF
EVENTS_SINCE_0_10 = 0x3FFF


@dataclass(frozen=True, slots=True)
class RuntimeVersion:
    """A container runtime and the NRI version that it embeds."""

    runtime_name: str = "containerd"
    """The name in Configure: "containerd", "cri-o", or "v2" (containerd 2.0.0 to 2.0.3)."""
    runtime_version: str = "v2.3.4"
    nri_version: tuple[int, int, int] = (0, 12, 0)

    @property
    def nri_version_text(self) -> str:
        """The version as Configure carries it: "v0.12.0"."""
        return "v" + ".".join(str(number) for number in self.nri_version)

    @property
    def is_crio(self) -> bool:
        """Whether this is CRI-O; everything else behaves like containerd."""
        return self.runtime_name == "cri-o"

    @property
    def event_mask(self) -> int:
        """The events that a plugin may subscribe to."""
        if self.nri_version >= (0, 10, 0):
            return EVENTS_SINCE_0_10
        return EVENTS_OF_0_9_1 if self.nri_version >= (0, 9, 1) else EVENTS_UNTIL_0_9

    @property
    def sends_timeouts(self) -> bool:
        """Whether Configure carries the two timeouts."""
        return self.nri_version >= (0, 7, 0)

    @property
    def sends_nri_version(self) -> bool:
        """Whether Configure carries NRI_version."""
        return self.nri_version >= (0, 12, 0)

    @property
    def has_memory_policy(self) -> bool:
        """Whether adjustments have memory policies; older versions drop them silently."""
        return self.nri_version >= (0, 12, 0)

    @property
    def has_dedicated_calls(self) -> bool:
        """Whether notifications have calls of their own, with StateChange as the fallback."""
        return self.nri_version >= (0, 12, 0)

    @property
    def checks_plugin_names(self) -> bool:
        """Whether a plugin's name is limited to letters, digits and "_.+-"."""
        return self.nri_version >= (0, 12, 0)

    @property
    def splits_synchronize(self) -> bool:
        """Whether a Synchronize that is too large for one message is sent in parts."""
        return self.nri_version >= (0, 7, 0)

    @property
    def synchronizes_launched(self) -> bool:
        """Whether plugins that the runtime launched get a Synchronize."""
        return self.nri_version >= (0, 7, 0)

    @property
    def closes_after_failed_synchronize(self) -> bool:
        """Whether a failed Synchronize closes the plugin; if not, it stays open and unused."""
        return self.nri_version >= (0, 7, 0)

    @property
    def kills_closed_plugins(self) -> bool:
        """Whether a launched plugin's process dies with its connection."""
        return self.nri_version >= (0, 7, 0)

    @property
    def passes_full_plugin_name(self) -> bool:
        """Whether NRI_PLUGIN_NAME is "10-name" instead of "name"."""
        return self.nri_version < (0, 4, 0)

    @property
    def leaks_descriptor(self) -> bool:
        """Whether a launched plugin inherits a duplicate of its socket."""
        return self.nri_version < (0, 6, 0)

    @property
    def max_frame_payload_bytes(self) -> int:
        """The largest multiplexer frame that the runtime writes."""
        new = self.nri_version >= (0, 7, 0)
        return MAX_FRAME_PAYLOAD_BYTES if new else OLD_MAX_FRAME_PAYLOAD_BYTES
