"""The licences of what is in the single executable file, for `nri-numamem --licenses`."""

import re
import zipfile
from collections.abc import Iterator
from pathlib import Path

import claim_hook

from single_file.interpreter import Interpreter
from single_file.openssl import OpenSSL

_LINE = "=" * 79

# Below a package's .dist-info.
_FILE = re.compile(r"[^/]+\.dist-info/(?:licenses/)?((?:LICEN[CS]E|NOTICE|COPYING|AUTHORS)[^/]*)")

# requirements.txt has it for pip.
NOT_INSIDE = {"setuptools"}

# pyroute2 is under either of two licences; here it is under Apache-2.0.
_NOT_CHOSEN = {"LICENSE.GPL-2.0-or-later"}

_COMMENT = re.compile(r"\A(/\*.*?\*/|(?://[^\n]*\n)+)", re.DOTALL)

_INTRODUCTION = """\
This file contains nri-numamem and the programs and libraries below, each under the licence that
follows its name. It also contains startup code of the GNU C Library and functions of GCC's libgcc,
whose licences permit that without conditions. The C library itself is the host's.
"""


def collect(interpreter: Interpreter, openssl: OpenSSL, own: Path) -> str:
    """Return all licences as one text; `own` is the folder with the plugin's LICENSE."""
    parts = [_INTRODUCTION]
    for name, text in _texts(interpreter, openssl, own):
        parts += [f"{_LINE}\n{name}\n{_LINE}\n", text.strip("\n") + "\n"]
    return "\n".join(parts)


def _texts(interpreter: Interpreter, openssl: OpenSSL, own: Path) -> Iterator[tuple[str, str]]:
    """Yield name and licence; ValueError or OSError if one has no text."""
    yield "nri-numamem", _read(own / "LICENSE")
    python = interpreter.folder / "python"
    yield "CPython", _read(python / "LICENSE")
    yield "CPython: software in it", _read(python / "Doc/license.rst")
    yield "CPython: HACL*", _comment(python / "Modules/_hacl/Hacl_Hash_SHA2.c")
    protobuf = interpreter.folder / "protobuf"
    yield "protobuf", _read(protobuf / "LICENSE")
    yield "protobuf: utf8_range", _comment(protobuf / "utf8_range/utf8_range.c")
    yield f"OpenSSL-{openssl.version}: LICENSE.txt", _read(openssl.folder / "LICENSE.txt")
    yield "OpenSSL: authors", _read(openssl.folder / "COPYRIGHT")
    for library, package in (("libffi", "libffi-dev"), ("zlib", "zlib1g-dev")):
        yield library, _read(interpreter.root / "usr/share/doc" / package / "copyright")
    yield "Go", _read(claim_hook.LICENSE)
    for wheel in sorted(interpreter.downloads.glob("*.whl")):
        if wheel.name.split("-")[0] not in NOT_INSIDE:
            yield from _of_wheel(wheel)


def _of_wheel(wheel: Path) -> Iterator[tuple[str, str]]:
    name = "-".join(wheel.name.split("-")[:2])
    with zipfile.ZipFile(wheel) as archive:
        found = [match for path in archive.namelist() if (match := _FILE.fullmatch(path))]
        if not found:
            raise ValueError(f"{wheel.name} has no licence; see licenses.py")
        for match in sorted(found, key=lambda match: match[0]):
            if match[1] not in _NOT_CHOSEN:
                yield f"{name}: {match[1]}", archive.read(match[0]).decode()


def _read(path: Path) -> str:
    return path.read_text(encoding="utf-8")


def _comment(path: Path) -> str:
    """Return the comment at the beginning of a source file, which is its licence."""
    match = _COMMENT.match(_read(path))
    if match is None:
        raise ValueError(f"{path} begins with no comment; see licenses.py")
    return match[0]
