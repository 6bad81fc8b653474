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


def test_module_works_where_the_c_implementation_looks_different_inside(root: Path) -> None:
    script = (
        "import runpy, sys; from google.protobuf.internal import api_implementation;"
        "sys.modules['google._upb._message'] = None; sys.argv[:] = sys.argv[1:];"
        "runpy.run_path(sys.argv[0], run_name='__main__')"
    )
    module = root / "tests" / "api" / "portability.py"
    done = subprocess.run(
        [sys.executable, "-c", script, module], capture_output=True, text=True, check=False
    )
    assert done.stderr == ""
    assert done.stdout.startswith("ok: ")


def test_module_loads_no_second_implementation(root: Path) -> None:
    script = (
        "import runpy, sys; runpy.run_path(sys.argv[1]);"
        "print(*{'pickle', 'google.protobuf.internal.python_message'} & sys.modules.keys())"
    )
    module = root / "nri_numamem" / "nri" / "api_pb2.py"
    done = subprocess.run(
        [sys.executable, "-c", script, module],
        env={**os.environ, "PROTOCOL_BUFFERS_PYTHON_IMPLEMENTATION": "upb"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == "\n"


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
