"""What a 64-bit little-endian ELF program needs of its host.

Source: elf(5), and "Symbol Versioning" in the Linux Standard Base.
"""

import struct
from pathlib import Path
from typing import NamedTuple

_INTERPRETER = 3  # PT_INTERP
_DYNAMIC = 6  # SHT_DYNAMIC
_VERSIONS = 0x6FFFFFFE  # SHT_GNU_verneed
_NEEDED = 1  # DT_NEEDED


class Section(NamedTuple):
    """A section header."""

    kind: int
    offset: int
    size: int
    link: int
    entries: int


class Elf:
    """A program or library that is linked dynamically."""

    def __init__(self, path: Path) -> None:
        self._data = path.read_bytes()
        if self._data[:6] != b"\x7fELF\x02\x01":
            raise ValueError(f"{path} is no 64-bit little-endian ELF file")
        (start,) = struct.unpack_from("<Q", self._data, 0x28)
        size, count = struct.unpack_from("<HH", self._data, 0x3A)
        self._sections = [self._section(start + size * index) for index in range(count)]

    def _section(self, at: int) -> Section:
        fields = struct.unpack_from("<IIQQQQIIQQ", self._data, at)
        return Section(fields[1], fields[4], fields[5], fields[6], fields[7])

    def _string(self, at: int) -> str:
        return self._data[at : self._data.index(b"\0", at)].decode()

    @property
    def interpreter(self) -> str:
        """The path of the dynamic linker."""
        (start,) = struct.unpack_from("<Q", self._data, 0x20)
        size, count = struct.unpack_from("<HH", self._data, 0x36)
        for index in range(count):
            kind, _flags, offset = struct.unpack_from("<IIQ", self._data, start + size * index)
            if kind == _INTERPRETER:
                return self._string(offset)
        raise ValueError("the program is linked statically")

    @property
    def libraries(self) -> set[str]:
        """The names of the shared libraries."""
        (section,) = (section for section in self._sections if section.kind == _DYNAMIC)
        strings = self._sections[section.link].offset
        entries = struct.iter_unpack("<QQ", self._bytes_of(section))
        return {self._string(strings + value) for tag, value in entries if tag == _NEEDED}

    @property
    def versions(self) -> set[str]:
        """The symbol versions that the libraries must have, such as GLIBC_2.28."""
        (section,) = (section for section in self._sections if section.kind == _VERSIONS)
        strings = self._sections[section.link].offset
        found = set()
        library = section.offset
        for _ in range(section.entries):
            _version, count, _file, first, following = struct.unpack_from(
                "<HHIII", self._data, library
            )
            entry = library + first
            for _ in range(count):
                _hash, _flags, _index, name, next_entry = struct.unpack_from(
                    "<IHHII", self._data, entry
                )
                found.add(self._string(strings + name))
                entry += next_entry
            library += following
        return found

    def _bytes_of(self, section: Section) -> bytes:
        return self._data[section.offset : section.offset + section.size]
