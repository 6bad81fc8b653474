"""The generated module with the installed protobuf, in both of its implementations."""

import os
import subprocess
import sys
from pathlib import Path

import pytest


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


def test_module_imports_protobuf_only(root: Path) -> None:
    # Start-up time counts, and the module must not need the package around it.
    script = (
        "import runpy, sys; before = set(sys.modules); runpy.run_path(sys.argv[1]);"
        "print(*{name.partition('.')[0] for name in set(sys.modules) - before})"
    )
    module = root / "nri_numamem" / "nri" / "api_pb2.py"
    done = subprocess.run(
        [sys.executable, "-P", "-c", script, module], capture_output=True, text=True, check=True
    )
    assert set(done.stdout.split()) - sys.stdlib_module_names == {"google"}
