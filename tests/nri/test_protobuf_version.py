import os
import subprocess
import sys

import google.protobuf
import pytest

from nri_numamem.engine.records.plain import fields_of
from nri_numamem.nri import protobuf_version
from nri_numamem.nri.protobuf_version import (
    COMPILED,
    PYTHON,
    check_protobuf,
    installed_implementation,
    vulnerability,
)


@pytest.mark.parametrize(
    ("version", "implementation", "fixed"),
    [
        ("3.20.3", COMPILED, "4.21.6"),
        ("4.21.5", COMPILED, "4.21.6"),
        ("4.21.6", COMPILED, None),
        ("4.21.12", COMPILED, None),
        ("5.26.0", COMPILED, None),
        ("7.36.2", COMPILED, None),
        ("4.21.12", PYTHON, "4.25.8"),
        ("4.25.7", PYTHON, "4.25.8"),
        ("4.25.8", PYTHON, None),
        ("5.29.4", PYTHON, "5.29.5"),
        ("5.29.5", PYTHON, None),
        ("6.30.2", PYTHON, "6.31.1"),
        ("6.31.0rc1", PYTHON, "6.31.1"),
        ("6.31.1", PYTHON, None),
        ("7.0.0", PYTHON, None),
    ],
)
def test_vulnerable_versions(version: str, implementation: str, fixed: str | None) -> None:
    found = vulnerability(version, implementation)
    assert (found and found[1]) == fixed
    if found is not None:
        assert found[0].startswith("CVE-")


def test_the_installed_version_is_not_vulnerable() -> None:
    assert check_protobuf() is None


def test_a_vulnerable_version_is_a_warning_with_a_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(google.protobuf, "__version__", "5.28.0")
    monkeypatch.setattr(protobuf_version, "installed_implementation", lambda: PYTHON)
    record = check_protobuf()
    assert record is not None
    assert (record.event, record.level) == ("protobuf_vulnerable", "warning")
    assert fields_of(record)["protobuf_version"] == "5.28.0"
    assert "protobuf 5.29.5 or newer" in str(fields_of(record)["remedy"])


@pytest.mark.parametrize(("name", "expected"), [("python", PYTHON), ("upb", COMPILED)])
def test_the_implementation_is_recognized(name: str, expected: str) -> None:
    code = (
        "from nri_numamem.nri.protobuf_version import installed_implementation as found\n"
        "print(found())"
    )
    environment = {**os.environ, "PROTOCOL_BUFFERS_PYTHON_IMPLEMENTATION": name}
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code],
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.strip() == expected
    assert installed_implementation() in (PYTHON, COMPILED)
