"""The generated module with the installed protobuf, in both of its implementations."""

import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from tests.api import portability


def _number(text: str) -> tuple[int, ...]:
    return tuple(map(int, text.split(".")))


@pytest.mark.parametrize("implementation", ["upb", "python"])
def test_module_works_with_installed_protobuf(root: Path, implementation: str) -> None:
    done = subprocess.run(
        [sys.executable, root / "tests" / "api" / "portability.py"],
        env={**os.environ, "PROTOCOL_BUFFERS_PYTHON_IMPLEMENTATION": implementation},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stderr == ""
    assert done.returncode == 0
    assert f" {implementation}, Python " in done.stdout


def test_declared_range_is_the_range_of_checked_versions(root: Path) -> None:
    project = tomllib.loads((root / "pyproject.toml").read_text())["project"]
    (protobuf,) = (d for d in project["dependencies"] if d.startswith("protobuf"))
    bounds = re.fullmatch(r"protobuf>=([\d.]+),<(\d+)", protobuf)
    assert bounds is not None
    checked = [_number(text) for text in portability.VERSIONS]
    assert checked == sorted(checked)
    assert _number(bounds[1]) == checked[0]
    majors = {number[0] for number in checked}
    assert majors == set(range(checked[0][0], int(bounds[2])))


def test_pinned_protobuf_is_a_checked_version(root: Path) -> None:
    pins = (root / "constraints.txt").read_text().splitlines()
    assert f"protobuf=={portability.VERSIONS[-1]}" in pins


def test_module_imports_protobuf_only(root: Path) -> None:
    # The module works without the package around it; tests/e2e copies one into a guest.
    script = (
        "import runpy, sys; before = set(sys.modules); runpy.run_path(sys.argv[1]);"
        "print(*{name.partition('.')[0] for name in set(sys.modules) - before})"
    )
    module = root / "tests" / "laboratory" / "api_pb2.py"
    done = subprocess.run(
        [sys.executable, "-P", "-c", script, module], capture_output=True, text=True, check=True
    )
    assert set(done.stdout.split()) - sys.stdlib_module_names == {"google"}


def test_module_uses_only_the_interface_for_generated_code(root: Path) -> None:
    for name in ("tests/laboratory/api_pb2.py", "nri_numamem/nri/nri_subset_pb2.py"):
        imports = [line for line in (root / name).read_text().splitlines() if "import " in line]
        assert [line.partition("  #")[0] for line in imports] == [
            "from google.protobuf import descriptor_pool",
            "from google.protobuf.internal import builder",
        ]
