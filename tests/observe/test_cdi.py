"""CDI specifications of claims."""

import json
import re
from pathlib import Path

from nri_numamem.memorymanager.claims import Claim
from nri_numamem.observe import cdi

UID = "0b8c7c8e-9f1c-4a55-8d07-1a2b3c4d5e6f"
PROGRAM = "/usr/libexec/nri-numamem/claim-hook"
CLAIM = Claim(
    UID,
    "telco",
    "upf-numa",
    {"mem": {1: {"memory": 4096}, 0: {"memory": 8192}}, "pages": {1: {"hugepages-2Mi": 2 << 20}}},
)


def test_each_request_is_a_device_with_one_hook(tmp_path: Path) -> None:
    directory = tmp_path / "run" / "cdi"
    cdi.write_specification(directory, CLAIM, PROGRAM)
    (file,) = directory.iterdir()
    assert file.name == f"numamem.io-claim_{UID}.json"
    found = json.loads(file.read_text())
    hook = {"hookName": "createRuntime", "path": PROGRAM}
    first = [*("claim-hook", UID, "mem"), "0-1", "memory@0=8192,memory@1=4096", "telco/upf-numa"]
    second = [*("claim-hook", UID, "pages"), "1", "hugepages-2Mi@1=2097152", "telco/upf-numa"]
    assert found == {
        "cdiVersion": "0.5.0",
        "kind": "numamem.io/claim",
        "devices": [
            {"name": f"{UID}-mem", "containerEdits": {"hooks": [{**hook, "args": first}]}},
            {"name": f"{UID}-pages", "containerEdits": {"hooks": [{**hook, "args": second}]}},
        ],
    }
    cdi.remove_specification(directory, UID)
    cdi.remove_specification(directory, UID)
    assert list(directory.iterdir()) == []


def test_names_follow_the_rules_of_cdi() -> None:
    # CDI, pkg/parser: letters, digits and "_-.:", a letter or digit at both ends.
    name = cdi.device_id(UID, "mem").removeprefix("numamem.io/claim=")
    assert name == f"{UID}-mem"
    assert re.fullmatch(r"[A-Za-z0-9]([A-Za-z0-9_.:-]*[A-Za-z0-9])?", name)
    vendor, _slash, kind = cdi.KIND.partition("/")
    assert re.fullmatch(r"[A-Za-z][A-Za-z0-9_.-]*[A-Za-z0-9]", vendor)
    assert re.fullmatch(r"[A-Za-z][A-Za-z0-9_-]*[A-Za-z0-9]", kind)
