"""Specifications of the Container Device Interface (CDI) for resource claims.

The kubelet passes the names of CDI devices to the runtime, which adds their edits to the OCI
specification before it calls NRI plugins. The device of a claim's request has one edit, an OCI
hook. Its arguments identify the claim for the plugin; its program compares the NUMA nodes of the
container's process with them, and fails the start if they differ.

Source: CDI's SPEC.md, version 0.5.0, the first one with the rules for names that are used here.
"""

import json
from pathlib import Path

from nri_numamem.memorymanager.claims import Claim, format_amounts, nodes_of
from nri_numamem.observe.files import replace_file

KIND = "numamem.io/claim"
"""Vendor and class of the devices."""

VERSION = "0.5.0"


def device_id(uid: str, request: str) -> str:
    """Return the name of the CDI device for a request of a claim."""
    return f"{KIND}={uid}-{request}"


def specification_file(directory: Path, uid: str) -> Path:
    """Return the path of a claim's specification."""
    return directory / f"{KIND.replace('/', '-')}_{uid}.json"


def specification(claim: Claim, program: str) -> dict[str, object]:
    """Return the specification of a claim; `program` is the path of the hook's program."""
    return {
        "cdiVersion": VERSION,
        "kind": KIND,
        "devices": [
            {
                "name": f"{claim.uid}-{request}",
                "containerEdits": {
                    "hooks": [
                        {
                            "hookName": "createRuntime",
                            "path": program,
                            "args": [
                                "claim-hook",
                                claim.uid,
                                request,
                                str(nodes_of(amounts)),
                                format_amounts(amounts),
                                str(claim),
                            ],
                        }
                    ]
                },
            }
            for request, amounts in sorted(claim.requests.items())
        ],
    }


def write_specification(directory: Path, claim: Claim, program: str) -> None:
    """Write the specification of a claim; raises OSError."""
    data = json.dumps(specification(claim, program), separators=(",", ":")).encode() + b"\n"
    replace_file(specification_file(directory, claim.uid), data)


def remove_specification(directory: Path, uid: str) -> None:
    """Remove the specification of a claim, if there is one; raises OSError."""
    specification_file(directory, uid).unlink(missing_ok=True)
