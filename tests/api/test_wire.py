"""Messages as bytes: encoding, unknown fields, every valid form on the wire."""

import pytest
from google.protobuf.message import DecodeError

from tests.laboratory import api_pb2 as pb


def test_adjustment_of_mems_takes_the_tag_path_1_6_2_2_7() -> None:
    reply = pb.CreateContainerResponse()
    reply.adjust.linux.resources.cpu.mems = "0-1"
    # Written down by hand: each message is its tag, its length and what is inside.
    expected = b"\x0a\x0b\x32\x09\x12\x07\x12\x05\x3a\x030-1"
    assert reply.SerializeToString() == expected


def test_event_mask_is_field_2() -> None:
    assert pb.ConfigureResponse(events=0x7FF).SerializeToString() == b"\x10\xff\x0f"


def test_update_round_trip() -> None:
    resources = pb.LinuxResources(cpu=pb.LinuxCPU(mems="0"), unified={"hugetlb.2MB.max": "0"})
    update = pb.ContainerUpdate(
        container_id="c1",
        linux=pb.LinuxContainerUpdate(resources=resources),
        ignore_failure=True,
    )
    reply = pb.StopContainerResponse.FromString(
        pb.StopContainerResponse(update=[update]).SerializeToString()
    )
    assert list(reply.update) == [update]
    assert reply.update[0].linux.resources.unified["hugetlb.2MB.max"] == "0"


def test_pod_and_container_round_trip() -> None:
    pod = pb.PodSandbox(id="p", uid="u", labels={"a": "1", "b": ""}, ips=["::1"])
    pod.linux.cgroup_parent = "/kubepods/podu"
    pod.linux.pod_resources.memory.limit.value = 1 << 40
    container = pb.Container(id="c", state=pb.CONTAINER_CREATED, created_at=-1, args=["", "x"])
    container.linux.oom_score_adj.value = -997
    container.linux.resources.hugepage_limits.add(page_size="1GB", limit=(1 << 64) - 1)
    sent = pb.SynchronizeRequest(pods=[pod], containers=[container], more=True)
    got = pb.SynchronizeRequest.FromString(sent.SerializeToString())
    assert got == sent
    assert got.containers[0].linux.oom_score_adj.value == -997
    assert got.containers[0].linux.resources.hugepage_limits[0].limit == (1 << 64) - 1


def test_a_wrapper_distinguishes_zero_from_unset() -> None:
    memory = pb.LinuxMemory.FromString(b"\x0a\x00\x12\x02\x08\x05")
    assert memory.HasField("limit")
    assert memory.limit.value == 0
    assert memory.reservation.value == 5
    assert not memory.HasField("swap")
    # An empty wrapper remains present, so a reply has the bytes of the request.
    assert memory.SerializeToString() == b"\x0a\x00\x12\x02\x08\x05"


def test_unknown_fields_are_preserved() -> None:
    newer = b"\xf8\x3f\x07"  # field 1023, varint 7
    inner = b"\x0a\x01c" + newer  # container_id, then what a newer peer added
    wire = b"\x0a" + bytes([len(inner)]) + inner + newer
    update = pb.StopContainerResponse.FromString(wire)
    assert update.update[0].container_id == "c"
    assert update.SerializeToString() == wire


def test_unknown_enum_numbers_are_preserved() -> None:
    event = pb.StateChangeEvent.FromString(b"\x08\x63")
    assert event.event == 99
    assert event.SerializeToString() == b"\x08\x63"


@pytest.mark.parametrize("wire", [b"\x1a\x02\x00\x02", b"\x18\x00\x18\x02"])
def test_repeated_numbers_packed_or_not(wire: bytes) -> None:
    policy = pb.LinuxMemoryPolicy.FromString(wire)
    assert list(policy.flags) == [pb.MPOL_F_STATIC_NODES, pb.MPOL_F_NUMA_BALANCING]
    assert policy.SerializeToString() == b"\x1a\x02\x00\x02"


@pytest.mark.parametrize(
    ("entry", "expected"),
    [(b"", {"": ""}), (b"\x0a\x01k", {"k": ""}), (b"\x12\x01v", {"": "v"})],
)
def test_map_entry_with_parts_absent(entry: bytes, expected: dict[str, str]) -> None:
    wire = b"\x2a" + bytes([len(entry)]) + entry
    assert dict(pb.PodSandbox.FromString(wire).labels) == expected


def test_last_scalar_wins_and_submessages_merge() -> None:
    wire = b"\x3a\x010\x3a\x011\x0a\x02\x08\x02\x0a\x00"
    cpu = pb.LinuxCPU.FromString(wire)
    assert cpu.mems == "1"
    assert cpu.shares.value == 2


@pytest.mark.parametrize(
    "wire",
    [b"\x0a\x05abc", b"\x0a", b"\x0a\x01\xff", b"\x0f", b"\x00"],
    ids=["cut string", "cut length", "not utf-8", "wire type 7", "field number 0"],
)
def test_invalid_bytes_are_a_decode_error(wire: bytes) -> None:
    # Callers must catch both: pure-Python protobuf raises the second.
    with pytest.raises((DecodeError, UnicodeDecodeError)):
        pb.PodSandbox.FromString(wire)


def test_enum_value_none_and_field_class_are_reachable() -> None:
    assert pb.Field.Value("None") == 0
    assert pb.Field.Name(pb.CPUSetMems) == "CPUSetMems"
    priority = pb.LinuxIOPriority(priority=4)
    setattr(priority, "class", pb.IOPRIO_CLASS_RT)
    assert priority.SerializeToString() == b"\x08\x01\x10\x04"
    priority.ClearField("class")
    assert getattr(priority, "class") == pb.IOPRIO_CLASS_NONE
