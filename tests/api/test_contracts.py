"""The envelope protos against the published numbers (ttrpc request.proto, google.rpc.Status)."""

from pathlib import Path
from types import ModuleType

import pytest
from google.protobuf.descriptor_pb2 import FieldDescriptorProto, FileDescriptorProto
from google.protobuf.descriptor_pool import DescriptorPool

MESSAGES = {
    "ttrpc.Request": (
        "1 service string",
        "2 method string",
        "3 payload bytes",
        "4 timeout_nano int64",
        "5 metadata repeated ttrpc.KeyValue",
    ),
    "ttrpc.Response": ("1 status google.rpc.Status", "2 payload bytes"),
    "ttrpc.KeyValue": ("1 key string", "2 value string"),
    "google.rpc.Status": (
        "1 code int32",
        "2 message string",
        "3 details repeated google.protobuf.Any",
    ),
}


def _field(field: FieldDescriptorProto) -> str:
    kind = FieldDescriptorProto.Type.Name(field.type).removeprefix("TYPE_").lower()
    repeated = "repeated " if field.label == FieldDescriptorProto.LABEL_REPEATED else ""
    return f"{field.number} {field.name} {repeated}{field.type_name.removeprefix('.') or kind}"


def _messages(file: FileDescriptorProto) -> dict[str, tuple[str, ...]]:
    return {
        f"{file.package}.{message.name}": tuple(_field(field) for field in message.field)
        for message in file.message_type
    }


def test_envelope_messages(generate: ModuleType, root: Path) -> None:
    *imports, envelope = generate.load(root / "api" / "ttrpc.proto").file
    (status,) = (file for file in imports if file.name == "status.proto")
    assert _messages(envelope) | _messages(status) == MESSAGES


@pytest.mark.parametrize("name", ["status.proto", "ttrpc.proto"])
def test_set_is_complete_and_ordered(generate: ModuleType, root: Path, name: str) -> None:
    # A descriptor pool needs the imports first.
    pool = DescriptorPool()
    files = generate.load(root / "api" / name).file
    for file in files:
        pool.Add(file)
    assert files[-1].name == name
    assert pool.FindFileByName(name).package == files[-1].package
    assert not any(file.HasField("source_code_info") for file in files)
