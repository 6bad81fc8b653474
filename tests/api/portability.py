"""Check that a generated module works with this interpreter's protobuf, or with several versions.

    python tests/api/portability.py                 the installed protobuf
    python tests/api/portability.py --all-versions  each of VERSIONS, installed by pip for the check

The first form needs nothing but protobuf. The check covers the features in which versions and
implementations of protobuf differ: maps, wrappers, packed and unknown fields, nested enums and
names that are Python keywords. It prints one line per version and exits with 0, or ends with a
traceback. PROTOCOL_BUFFERS_PYTHON_IMPLEMENTATION=python selects protobuf's pure-Python
implementation.
"""

import importlib.util
import os
import platform
import subprocess
import sys
import tempfile
import warnings
from pathlib import Path
from types import ModuleType

MODULE = Path(__file__).resolve().parents[2] / "tests" / "laboratory" / "api_pb2.py"

# The oldest version that pyproject.toml allows, which Debian 13 ships, and at least one version of
# each major release up to the one in constraints.txt.
VERSIONS = ("4.21.12", "4.25.8", "5.29.5", "6.33.0", "7.36.2")


def load(path: Path) -> ModuleType:
    """Import the module alone: the package around it is not installed everywhere."""
    spec = importlib.util.spec_from_file_location("api_pb2", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def check(pb: ModuleType) -> None:
    """Raise AssertionError if the messages do not have the specified wire format."""
    limit = pb.LinuxMemory(limit=pb.OptionalInt64(value=0))
    sent = pb.Container(id="c", labels={"a": "b"}, state=pb.CONTAINER_RUNNING)
    sent.linux.resources.memory.CopyFrom(limit)
    sent.linux.resources.unified["memory.min"] = "1"
    sent.linux.net_devices["eth0"].name = "net1"
    unknown = b"\xba\x3e\x01z"  # field 999, a string
    got = pb.Container.FromString(sent.SerializeToString() + unknown)
    assert got.linux.resources.memory.HasField("limit")
    assert not got.linux.resources.memory.HasField("swap")
    assert dict(got.labels) == {"a": "b"}
    assert got.linux.net_devices["eth0"].name == "net1"
    assert got != sent
    assert got.SerializeToString().endswith(unknown)

    owners = pb.OwningPlugins()
    owners.owners["c"].compound[pb.Annotations].owners["key"] = "plugin"
    assert pb.OwningPlugins.FromString(owners.SerializeToString()) == owners

    policy = pb.LinuxMemoryPolicy(flags=[0, 2])
    assert policy.SerializeToString() == b"\x1a\x02\x00\x02"
    assert pb.LinuxMemoryPolicy.FromString(b"\x18\x00\x18\x02") == policy  # not packed

    assert pb.Field.Value("None") == 0
    assert pb.LogRequest.LEVEL_INFO == pb.LogRequest.Level.Value("LEVEL_INFO") == 2
    assert pb.Event.ValueType is int
    priority = pb.LinuxIOPriority()
    setattr(priority, "class", pb.IOPRIO_CLASS_BE)
    assert priority.SerializeToString() == b"\x08\x02"
    assert len(pb.DESCRIPTOR.services_by_name["Plugin"].methods) == 18


def check_installed() -> None:
    """Check the module with the installed protobuf; print the version."""
    warnings.simplefilter("error")
    module = load(MODULE)
    check(module)

    from google import protobuf

    in_python = type(module.DESCRIPTOR).__module__.startswith("google.protobuf.")
    implementation = "python" if in_python else "upb"
    print(
        f"ok: protobuf {protobuf.__version__} {implementation}, Python {platform.python_version()}"
    )


def check_versions() -> None:
    """Check each of VERSIONS in both implementations; CalledProcessError for one that fails."""
    for version in VERSIONS:
        with tempfile.TemporaryDirectory() as folder:
            pip = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check"]
            package = f"protobuf=={version}"
            subprocess.run([*pip, "install", "--no-deps", "--target", folder, package], check=True)
            for implementation in ("upb", "python"):
                environment = {
                    **os.environ,
                    "PYTHONPATH": folder,
                    "PROTOCOL_BUFFERS_PYTHON_IMPLEMENTATION": implementation,
                }
                subprocess.run([sys.executable, __file__], env=environment, check=True)


if __name__ == "__main__":
    if sys.argv[1:] == ["--all-versions"]:
        check_versions()
    else:
        check_installed()
