"""Known vulnerabilities of the installed protobuf, which parses what the runtime sends.

Sources: CVE-2022-1941 (parsing unknown message sets takes too much memory; compiled parsers) and
CVE-2025-4565 (nested groups exceed Python's recursion limit; the parser in Python).
"""

import re

import google.protobuf

from nri_numamem.engine.records.files import ProtobufVulnerable
from nri_numamem.engine.records.record import Record
from nri_numamem.nri import nri_subset_pb2 as api

PYTHON, COMPILED = "python", "compiled"

# Of each series of releases, the first one without the vulnerability. Later series do not have it.
_FIXED = {
    COMPILED: ("CVE-2022-1941", ((4, 21, 6),)),
    PYTHON: ("CVE-2025-4565", ((4, 25, 8), (5, 29, 5), (6, 31, 1))),
}


def installed_implementation() -> str:
    """Return which parser protobuf uses: PYTHON, or COMPILED (upb, C++)."""
    is_python = type(api.Container).__module__.endswith(".python_message")
    return PYTHON if is_python else COMPILED


def vulnerability(version: str, implementation: str) -> tuple[str, str] | None:
    """Return the CVE of a version and the version that fixes it; None without a known one."""
    numbers = tuple(int(digits) for digits in re.findall(r"\d+", version)[:3])
    name, fixed_versions = _FIXED[implementation]
    for fixed in fixed_versions:
        if numbers[:1] <= fixed[:1]:
            return (name, ".".join(map(str, fixed))) if numbers < fixed else None
    return None


def check_protobuf() -> Record | None:
    """Return a record for an installed protobuf with a known vulnerability, else None."""
    version, implementation = google.protobuf.__version__, installed_implementation()
    found = vulnerability(version, implementation)
    if found is None:
        return None
    name, fixed = found
    return ProtobufVulnerable(
        protobuf_version=version,
        implementation=implementation,
        vulnerability=name,
        remedy=f"install protobuf {fixed} or newer; see packaging/requirements.txt",
    )
