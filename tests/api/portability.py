"""Check that the generated module works with the protobuf of this interpreter.

Needs nothing but protobuf, so that it also runs where no test tool is installed:

    python tests/api/portability.py [path of api_pb2.py]

It exercises what the runtimes differ in: maps, wrappers, packed and unknown fields, nested enums
and names that are Python keywords. Prints one line and exits 0; a traceback means it does not.
PROTOCOL_BUFFERS_PYTHON_IMPLEMENTATION=python picks the implementation without native code.
"""

import importlib.util
import platform
import sys
import warnings
from pathlib import Path
from types import ModuleType

DEFAULT = Path(__file__).resolve().parents[2] / "nri_numamem" / "nri" / "api_pb2.py"


def load(path: Path) -> ModuleType:
    """Import the module alone: the package around it is not installed everywhere."""
    spec = importlib.util.spec_from_file_location("api_pb2", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def check(pb: ModuleType) -> None:
    """Raise AssertionError where the messages do not behave as the wire format says."""
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


def main() -> None:
    """Check the module named on the command line, or the one in this tree."""
    warnings.simplefilter("error")
    check(load(Path(sys.argv[1]) if len(sys.argv) > 1 else DEFAULT))

    from google import protobuf
    from google.protobuf.internal import api_implementation

    version = f"protobuf {protobuf.__version__} {api_implementation.Type()}"
    print(f"ok: {version}, Python {platform.python_version()}")


if __name__ == "__main__":
    main()
