"""The stubs, checked twice: mypy --strict reads this file, pytest runs it.

`assert_type` does nothing at runtime and is exact for mypy. Where mypy must refuse a line, the
line carries an ignore of just that error, and strict mode reports an ignore that is not needed.
"""

from typing import assert_type

import pytest
from google.protobuf.internal.containers import MessageMap, ScalarMap

from tests.laboratory import api_pb2 as pb


def test_reading_types() -> None:
    container = pb.Container(id="c", rlimits=[pb.POSIXRlimit(type="RLIMIT_CORE")])
    assert_type(container.id, str)
    assert_type(container.pid, int)
    assert_type(container.state, pb.ContainerState.ValueType)
    assert_type(container.linux, pb.LinuxContainer)
    assert_type(container.linux.resources.memory.limit.value, int)
    assert_type(container.rlimits[0], pb.POSIXRlimit)
    assert_type(pb.SynchronizeRequest().more, bool)
    assert container.rlimits[0].type == "RLIMIT_CORE"


def test_map_types() -> None:
    linux = pb.LinuxContainer()
    labels: ScalarMap[str, str] = pb.PodSandbox(labels={"a": "b"}).labels
    devices: MessageMap[str, pb.LinuxNetDevice] = linux.net_devices
    assert_type(devices["eth0"].name, str)
    assert_type(labels.get("a"), str | None)
    assert labels["a"] == "b"
    assert linux.net_devices["eth0"] == pb.LinuxNetDevice()


def test_enum_types() -> None:
    event: pb.Event.ValueType = pb.STOP_CONTAINER
    assert_type(pb.Event.STOP_CONTAINER, pb.Event.ValueType)
    assert_type(pb.Event.Value("STOP_CONTAINER"), pb.Event.ValueType)
    assert_type(pb.Event.Name(event), str)
    assert_type(pb.LogRequest.LEVEL_INFO, pb.LogRequest.Level.ValueType)
    assert pb.Event.Name(event) == "STOP_CONTAINER"
    assert 1 << (event - 1) == 0x200
    assert pb.StateChangeEvent(event=event).event == pb.Event.Value("STOP_CONTAINER")


def test_none_is_unset_in_a_constructor() -> None:
    request = pb.CreateContainerRequest(pod=pb.PodSandbox(), container=None)
    assert request.HasField("pod")
    assert not request.HasField("container")
    request.ClearField("pod")
    assert not request.HasField("pod")


def test_generic_code_keeps_the_type() -> None:
    assert_type(pb.PodSandbox.FromString(b""), pb.PodSandbox)
    assert pb.PodSandbox.FromString(b"") == pb.PodSandbox()


def test_misuse_fails_in_mypy_and_at_runtime() -> None:
    container = pb.Container()
    with pytest.raises(AttributeError):
        container.linux = pb.LinuxContainer()  # type: ignore[misc]
    with pytest.raises(AttributeError):
        container.mems = "0"  # type: ignore[attr-defined]
    with pytest.raises(TypeError):
        container.id = 1  # type: ignore[assignment]
    with pytest.raises(ValueError, match="mems"):
        pb.Container(mems="0")  # type: ignore[call-arg]
    with pytest.raises(ValueError, match="id"):
        container.HasField("id")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="resources"):
        container.ClearField("resources")  # type: ignore[arg-type]
