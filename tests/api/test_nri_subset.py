"""The subset has the names, numbers and types of NRI's messages."""

from google.protobuf.descriptor import FileDescriptor
from google.protobuf.descriptor_pb2 import DescriptorProto, FileDescriptorProto

from nri_numamem.nri import nri_subset_pb2
from tests.laboratory import api_pb2, objects


def proto(descriptor: FileDescriptor) -> FileDescriptorProto:
    file = FileDescriptorProto()
    descriptor.CopyToProto(file)
    return file


WHOLE, PART = proto(api_pb2.DESCRIPTOR), proto(nri_subset_pb2.DESCRIPTOR)


def fields(message: DescriptorProto, package: str) -> dict[str, tuple[object, ...]]:
    """Return what a message's fields are on the wire, by name."""
    return {
        field.name: (
            field.number,
            field.type,
            field.label,
            field.type_name.removeprefix(f".{package}."),
        )
        for field in message.field
    }


def test_fields_are_equal_to_nris() -> None:
    whole = {message.name: fields(message, WHOLE.package) for message in WHOLE.message_type}
    for message in PART.message_type:
        part = fields(message, PART.package)
        assert part == {name: whole[message.name][name] for name in part}, message.name


def test_enum_numbers_are_equal_to_nris() -> None:
    whole = {
        enum.name: {value.name: value.number for value in enum.value} for enum in WHOLE.enum_type
    }
    for enum in PART.enum_type:
        part = {value.name: value.number for value in enum.value}
        assert part == {name: whole[enum.name][name] for name in part}, enum.name


def test_fields_outside_the_subset_are_skipped_and_preserved() -> None:
    pod = objects.pod("p", memory_limit_bytes=5)
    container = objects.container(pod, "main", memory_limit_bytes=4, hugepages={2 << 20: 0})
    whole = api_pb2.CreateContainerRequest(pod=pod, container=container)
    read = nri_subset_pb2.CreateContainerRequest.FromString(whole.SerializeToString())
    assert (read.pod.id, read.pod.linux.cgroup_parent) == (pod.id, pod.linux.cgroup_parent)
    assert read.container.linux.resources.memory.limit.value == 4
    assert read.container.linux.resources.hugepage_limits[0].page_size == "2MB"
    assert read.container.linux.devices[0].major == container.linux.devices[0].major
    # The skipped fields are preserved.
    assert api_pb2.CreateContainerRequest.FromString(read.SerializeToString()) == whole
