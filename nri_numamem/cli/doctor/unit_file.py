"""The lines of the plugin's systemd unit and of its drop-in files.

Reads the files as systemd does, without systemctl: the host may be mounted below another root.
Source: systemd.unit(5), systemd.exec(5).
"""

from nri_numamem.cli.host_files import Host
from nri_numamem.cli.installation.systemd import UNIT

# A file hides those of the same name in later directories.
_DIRECTORIES = (
    "/etc/systemd/system.control",
    "/run/systemd/system.control",
    "/etc/systemd/system",
    "/run/systemd/system",
    "/usr/local/lib/systemd/system",
    "/usr/lib/systemd/system",
    "/lib/systemd/system",
)


class UnitFile:
    """The settings of the unit and its drop-in files; raises UnreadableError."""

    def __init__(self, host: Host) -> None:
        files = [f"{directory}/{UNIT}" for directory in _DIRECTORIES]
        texts = (text for file in files if (text := host.read(file)) is not None)
        self._texts = [next(texts, "")]
        drop_ins: dict[str, str] = {}
        for folder in (f"{file}.d" for file in files):
            for name in host.names(folder):
                if name.endswith(".conf"):
                    drop_ins.setdefault(name, f"{folder}/{name}")
        self._texts += [host.read(drop_ins[name]) or "" for name in sorted(drop_ins)]

    def allows_capability(self, name: str) -> bool:
        """Return whether the service may have a capability, such as "CAP_SYS_ADMIN"."""
        values = self.values("CapabilityBoundingSet")
        if not values or any(name in value and value[0] != "~" for value in values):
            return True
        return any(value.startswith("~") and name not in value for value in values)

    def words(self, key: str) -> list[str]:
        """Return the words of a list, to which each line adds and which an empty line clears."""
        words: list[str] = []
        for value in self.values(key):
            words = [*words, *value.split()] if value else []
        return words

    def values(self, key: str) -> list[str]:
        """Return the value of each line of a key, in order."""
        lines = (line for text in self._texts for line in text.splitlines())
        pairs = (line.partition("=") for line in lines)
        return [value.strip() for name, equals, value in pairs if equals and name.strip() == key]
