"""The generator: its output, --check, and the protos that it refuses."""

import runpy
import shutil
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

OUTPUTS = ("tests/laboratory/api_pb2.py", "tests/laboratory/api_pb2.pyi")

SAMPLE = """
syntax = "proto3";
package generate.sample;
message Outer {
  message Inner { bytes raw = 1; }
  enum Kind { KIND_ZERO = 0; None = 1; }
  Inner inner = 1;
  repeated Inner many = 2;
  Kind kind = 3;
  repeated Kind kinds = 4;
  map<int32, Inner> by_id = 5;
  map<string, bool> flags = 6;
  double ratio = 7;
  string class = 8;
}
message Void {}
"""


@pytest.fixture
def copy(tmp_path: Path, root: Path, generate: ModuleType, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a tree with the protos and what is generated from them; `generate` works on it."""
    for target in generate.TARGETS:
        for name in (target.proto, f"{target.module}_pb2.py", f"{target.module}_pb2.pyi"):
            (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(root / name, tmp_path / name)
    for name in (*generate.CONTRACTS, "api/generate.py", "api/module.py.template"):
        shutil.copy(root / name, tmp_path / name)
    monkeypatch.setattr(generate, "ROOT", tmp_path)
    return tmp_path


@pytest.fixture
def sample(tmp_path: Path, generate: ModuleType, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the proto of a tree with one small target, sample_pb2, and no contracts."""
    targets = (generate.Target(proto="sample.proto", module="sample"),)
    for name, value in (("ROOT", tmp_path), ("TARGETS", targets), ("CONTRACTS", ())):
        monkeypatch.setattr(generate, name, value)
    (tmp_path / "sample.proto").write_text(SAMPLE)
    return tmp_path / "sample.proto"


def _replace(path: Path, old: str, new: str) -> None:
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))


def test_tree_is_current(generate: ModuleType, capfd: pytest.CaptureFixture[str]) -> None:
    assert generate.main(["--check"]) == 0
    assert capfd.readouterr() == ("", "")


def test_check_names_each_stale_file_and_the_command(copy: Path) -> None:
    _replace(copy / "api/nri.proto", "string plugin_name = 1;", "string plugin_name = 7;")
    before = {name: (copy / name).read_text() for name in OUTPUTS}
    done = subprocess.run(
        [sys.executable, copy / "api" / "generate.py", "--check"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert done.stdout == ""
    assert done.stderr.splitlines() == [
        f"{name} is out of date: run `python api/generate.py`" for name in OUTPUTS
    ]
    assert before == {name: (copy / name).read_text() for name in OUTPUTS}


def test_edited_output_is_stale(
    copy: Path, generate: ModuleType, capfd: pytest.CaptureFixture[str]
) -> None:
    _replace(copy / OUTPUTS[1], "plugin_idx: str\n", "plugin_idx: int\n")
    assert generate.main(["--check"]) == 1
    (line,) = capfd.readouterr().err.splitlines()
    assert line.startswith(f"{OUTPUTS[1]} is out of date")


def test_missing_output_is_written(
    copy: Path, root: Path, generate: ModuleType, capfd: pytest.CaptureFixture[str]
) -> None:
    (copy / OUTPUTS[0]).unlink()
    assert generate.main(["--check"]) == 1
    capfd.readouterr()
    assert generate.main([]) == 0
    assert capfd.readouterr().out == f"wrote {OUTPUTS[0]}\n"
    assert (copy / OUTPUTS[0]).read_text() == (root / OUTPUTS[0]).read_text()


def test_comments_change_nothing(copy: Path, generate: ModuleType) -> None:
    _replace(copy / "api/nri.proto", "string plugin_name", "// Another word.\n  string plugin_name")
    assert generate.main(["--check"]) == 0


def test_broken_contract_is_refused(
    copy: Path, generate: ModuleType, capfd: pytest.CaptureFixture[str]
) -> None:
    _replace(copy / "api/status.proto", "int32 code = 1;", "int32 code = 2;")
    assert generate.main(["--check"]) == 1
    error = capfd.readouterr().err.splitlines()
    assert "status.proto" in error[0]
    assert error[-1].startswith("api/generate.py: ")
    assert error[-1].endswith("is not valid: correct the line that protoc names above")


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        ("message Void {}", "message Void { oneof a { bool b = 1; } }", "Void: oneof"),
        ("message Void {}", "message Void { optional bool b = 1; }", "Void: oneof"),
        ("{ bytes raw = 1; }", "{ oneof a { bool b = 1; } }", "Inner: oneof"),
        ("package", 'import "google/protobuf/any.proto"; package', "imports are"),
    ],
)
def test_unsupported_proto_is_refused(
    sample: Path,
    generate: ModuleType,
    capfd: pytest.CaptureFixture[str],
    old: str,
    new: str,
    reason: str,
) -> None:
    _replace(sample, old, new)
    assert generate.main([]) == 1
    line = capfd.readouterr().err.splitlines()[-1]
    assert line.startswith(f"api/generate.py: sample.proto: {reason}")
    assert "not supported" in line
    assert not sample.with_name("sample_pb2.py").exists()


def test_generated_sample_works(sample: Path, generate: ModuleType) -> None:
    assert generate.main([]) == 0
    outer = runpy.run_path(str(sample.with_name("sample_pb2.py")), run_name="sample_pb2")["Outer"]
    message = outer(kinds=[0, 1], by_id={1: {"raw": b"x"}}, **{"class": "c"})
    assert outer.__module__ == "sample_pb2"
    # kinds packed, then the map's entry, then field 8: written down from the wire format.
    wire = b"\x22\x02\x00\x01\x2a\x07\x08\x01\x12\x03\x0a\x01x\x42\x01c"
    assert message.SerializeToString() == wire


def test_sample_stub(sample: Path, generate: ModuleType) -> None:
    assert generate.main([]) == 0
    text = sample.with_name("sample_pb2.pyi").read_text()
    lines = {line.strip() for line in text.splitlines()}
    assert lines >= {
        "INNER_FIELD_NUMBER: _Final = 1",
        "class Inner(_Message):",
        "raw: bytes",
        "ratio: float",
        "kind: Outer.Kind.ValueType",
        '# None is no Python name: use Outer.Kind.Value("None").',
        "# class is no Python name: use getattr() and setattr().",
        "def inner(self) -> Outer.Inner: ...",
        "def many(self) -> _containers.RepeatedCompositeFieldContainer[Outer.Inner]: ...",
        "def kinds(self) -> _containers.RepeatedScalarFieldContainer[Outer.Kind.ValueType]: ...",
        "def by_id(self) -> _containers.MessageMap[int, Outer.Inner]: ...",
        "def flags(self) -> _containers.ScalarMap[str, bool]: ...",
        "inner: Outer.Inner | None = ...,",
        "by_id: _Mapping[int, Outer.Inner] | None = ...,",
        'def HasField(self, field_name: _Literal["inner"]) -> bool: ...',
        "def HasField(self, field_name: _Never) -> bool: ...",
    }
    assert "ByIdEntry" not in text
    compile(text, "sample_pb2.pyi", "exec")


def test_a_changed_message_changes_its_own_lines_only(
    copy: Path, root: Path, generate: ModuleType
) -> None:
    _replace(copy / "api/nri.proto", "string plugin_name = 1;", "string plugin_name = 7;")
    assert generate.main([]) == 0
    old = (root / OUTPUTS[0]).read_text().splitlines()
    new = (copy / OUTPUTS[0]).read_text().splitlines()
    changed = [index for index, pair in enumerate(zip(old, new, strict=True)) if len(set(pair)) > 1]
    assert len(changed) == 1
    assert "RegisterPluginRequest" in new[changed[0]]
