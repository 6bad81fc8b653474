import io
import json
import sys
from pathlib import Path

import pytest

from nri_numamem.config import documents
from nri_numamem.config.documents import (
    MAX_DEPTH,
    DocumentError,
    decode,
    line_of,
    load_document,
    load_documents,
    name_of,
    parse,
    parse_all,
    place_in,
    read_file,
)
from nri_numamem.config.errors import UsageError


def test_yaml_and_json() -> None:
    expected = {"a": [1, {"b": None}], "c": "0-3"}
    assert load_document(b"a: [1, {b: null}]\nc: 0-3\n", "f") == expected
    assert load_document(b'\xef\xbb\xbf{"a": [1, {"b": null}], "c": "0-3"}', "f") == expected
    assert load_document(b"{a: [1, {b: null}], c: 0-3}", "f") == expected
    assert load_document(b"", "f") is None
    assert load_document(b"[1]", "f") == [1]


def test_dates_stay_text() -> None:
    document = b"creationTimestamp: 2024-01-01T00:00:00Z\nother: 2020-99-99\n"
    assert load_document(document, "f") == {
        "creationTimestamp": "2024-01-01T00:00:00Z",
        "other": "2020-99-99",
    }


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b"a: 1\nb: [\n", "f:3: "),
        (b'{"a": 1,\n "b"', "f:2: "),
        (b'{"a": 1, "a": 2}', "f:1: the key 'a' is given twice; keep one of the two"),
        (b"a: 1\na: 2\n", "f:2: the key 'a' is given twice; keep one of the two"),
        (b"a: !!python/object:os.system x", "f:1: could not determine a constructor"),
        (b"x: 1\ny: !!bool maybe", "f:2: 'maybe' in a value of type bool"),
        (b"x: !!map [1]", "f:1: expected a mapping node"),
        (b"a: \x00", "f:1: the character '\\x00' is not allowed; remove it"),
        (b"a\n\xff", "f:2: not UTF-8 text; save the file as UTF-8"),
        (b"[" * 5000, "f:1: nested too deeply, more than 64 levels; simplify it"),
        (b'{"a":' * 5000, "f:1: nested too deeply, more than 64 levels; simplify it"),
        (b'{"a":' * 99 + b"1" + b"}" * 99, "f:1: nested too deeply, "),
        (b"a: &x {b: 1}\n<<: *x", "f:2: the merge key << is not supported; "),
        (b"a: &x [*y]", "f:1: found undefined alias 'y'"),
        (b"a: 1\n---\nb: 2\n", "f:2: but found another document"),
    ],
)
def test_invalid_documents(content: bytes, problem: str) -> None:
    with pytest.raises(UsageError) as failed:
        load_document(content, "f")
    assert str(failed.value).startswith(problem)
    assert len(str(failed.value).splitlines()) == 1


def test_keys_need_not_be_text() -> None:
    assert load_document(b"0: a\ntrue: b\n", "f") == {0: "a", True: "b"}
    with pytest.raises(UsageError, match="f:2: found unhashable key"):
        load_document(b"0: a\n[1, 2]: b\n", "f")


def test_files_and_standard_input(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"12345")
    assert read_file(path) == b"12345"
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"piped")))
    assert read_file(Path("-")) == b"piped"
    assert (name_of(Path("-")), name_of(path)) == ("standard input", str(path))
    with pytest.raises(UsageError, match="No such file or directory; give the path of"):
        read_file(tmp_path / "missing")
    monkeypatch.setattr(documents, "SIZE_LIMIT_BYTES", 4)
    with pytest.raises(UsageError, match="more than 4 bytes"):
        read_file(path)


def test_the_place_of_a_path() -> None:
    assert place_in(b"a:\n- 1\n- b: 2\n", "f", ("a", 1, "b")) == "f:3"
    assert place_in(b'{"a": [1,\n{"b": 2}]}', "f", ("a", 1, "b")) == "f:2"
    # JSON that is no YAML.
    assert place_in(b'{\n\t"a": 1}', "f", ("a",)) == "f"


def test_streams_of_documents() -> None:
    content = b"a: 1\n---\nb: 2\n---\n"
    assert load_documents(content, "f") == [{"a": 1}, {"b": 2}, None]
    assert load_documents(b"# nothing\n", "f") == []
    assert load_documents(b'{"a": 1}', "f") == [{"a": 1}]
    assert place_in(content, "f", ("b",), 1) == "f:3"
    assert place_in(content, "f", ("b",), 9) == "f"
    with pytest.raises(UsageError, match="f:4: "):
        load_documents(b"a: 1\n---\nb: 2\nb: 3\n", "f")


def error_of(text: str) -> str:
    with pytest.raises(DocumentError) as caught:
        parse(text, "file")
    return str(caught.value)


def test_text_without_content() -> None:
    assert parse("", "file") == (None, None)
    assert parse("# comment\n", "file") == (None, None)


def test_json_is_yaml() -> None:
    assert parse('{"a": [1, "x"]}', "file")[1] == {"a": [1, "x"]}


def test_syntax_errors_name_the_line() -> None:
    assert error_of("a: [\nb").startswith("file:")
    assert error_of("a: 1\n\tb: 2\n").endswith("check indentation, quotes and colons there")
    assert error_of("a: 1\nb: \x00\n") == (
        "file:2: the character '\\x00' is not allowed; remove it"
    )


def test_a_stream_has_one_limit_for_all_documents() -> None:
    assert [value for _, value in parse_all("a\n---\nb\n", "file", 2)] == ["a", "b"]
    with pytest.raises(DocumentError, match=r"^file:3: more than 1 values; "):
        parse_all("a\n---\nb\n", "file", 1)


def test_decoding() -> None:
    assert decode(b"\xef\xbb\xbfa: \xc3\xa9", "file") == "a: é"
    with pytest.raises(DocumentError, match=r"^file:2: not UTF-8 text; save the file as UTF-8$"):
        decode(b"a\n\xff", "file")


def test_lines_of_values() -> None:
    root, _ = parse("a: 1\nb:\n- x: 1\n- x: 2\n  y: 3\n", "file")
    assert line_of(root, ("a",)) == 1
    assert line_of(root, ("b",)) == 2
    assert line_of(root, ("b", 1)) == 4
    assert line_of(root, ("b", 1, "y")) == 5
    assert line_of(root, ("b", 1, "z", "deeper")) == 4
    assert line_of(root, ("a", "z")) == 1
    assert line_of(root, ("b", 2, "y")) == 2
    assert line_of(root, ("a", 0)) == 1
    assert line_of(None, ("a",)) == 1


@pytest.mark.parametrize("levels", [MAX_DEPTH, MAX_DEPTH + 1])
@pytest.mark.parametrize(("begin", "end"), [("[", "]"), ('{"a": [], "b": ', "}")])
def test_the_depth_of_json(levels: int, begin: str, end: str) -> None:
    text = '{"a": ' + begin * (levels - 2) + "1" + end * (levels - 2) + "}"
    if levels > MAX_DEPTH:
        with pytest.raises(UsageError, match=r"^f:1: nested too deeply, "):
            load_document(text.encode(), "f")
    else:
        assert load_document(text.encode(), "f") == json.loads(text)
