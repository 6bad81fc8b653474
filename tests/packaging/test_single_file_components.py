"""The components of the single executable file, from a cache without an interpreter."""

from pathlib import Path

import claim_hook
import pytest
from single_file import components
from single_file.commands import BuildError
from single_file.interpreter import Interpreter

from tests.packaging.test_release_sbom import wheel_of

STATUS = """\
Package: libffi-dev
Status: install ok installed
Version: 3.3-6

Package: zlib1g-dev
Version: 1:1.2.11.dfsg-2+deb11u2
Description: compression library
"""


@pytest.fixture
def interpreter(tmp_path: Path) -> Interpreter:
    files = ["downloads/python3.13_3.13.5-2+deb13u5.dsc", "downloads/protobuf-7.36.2.tar.gz"]
    files.append("downloads/openssl_3.5.7-1~deb13u2.dsc")
    files += ["root/usr/lib/some-arch/libffi.a", "root/usr/lib/some-arch/libz.a"]
    for name in (*files, "root/var/lib/dpkg/status"):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    (tmp_path / "root/var/lib/dpkg/status").write_text(STATUS)
    wheel_of(tmp_path / "downloads", "rich")
    wheel_of(tmp_path / "downloads", "setuptools", "License-Expression: MIT")
    return Interpreter(tmp_path, "interpreter")


@pytest.fixture
def hook(tmp_path: Path) -> Path:
    return claim_hook.build(tmp_path)


def test_everything_that_is_linked_or_frozen_is_a_component(
    interpreter: Interpreter, hook: Path
) -> None:
    found = components.collect(interpreter, hook)
    go = claim_hook.go_version(hook)
    assert [(part["name"], part["version"]) for part in found] == [
        ("CPython", "3.13.5-2+deb13u5"),
        ("OpenSSL", "3.5.7-1~deb13u2"),
        ("protobuf", "7.36.2"),
        ("libffi", "3.3-6"),
        ("zlib", "1:1.2.11.dfsg-2+deb11u2"),
        ("rich", "1.0+a"),
        ("Go", go),
    ]
    assert found[6]["purl"] == f"pkg:golang/stdlib@{go}"
    assert found[6]["cpe"] == f"cpe:2.3:a:golang:go:{go}:*:*:*:*:*:*:*"
    assert found[0]["cpe"] == "cpe:2.3:a:python:python:3.13.5:*:*:*:*:*:*:*"
    assert found[1]["cpe"] == "cpe:2.3:a:openssl:openssl:3.5.7:*:*:*:*:*:*:*"
    assert found[1]["purl"] == "pkg:deb/debian/openssl@3.5.7-1~deb13u2?arch=source"
    assert (
        found[4]["purl"] == "pkg:deb/debian/zlib1g-dev@1%3A1.2.11.dfsg-2%2Bdeb11u2?distro=bullseye"
    )


def test_a_package_that_the_root_lacks_is_an_error(interpreter: Interpreter, hook: Path) -> None:
    (interpreter.root / "var/lib/dpkg/status").write_text(STATUS.replace("zlib1g-dev", "other"))
    with pytest.raises(BuildError, match="the build root has no package zlib1g-dev"):
        components.collect(interpreter, hook)
