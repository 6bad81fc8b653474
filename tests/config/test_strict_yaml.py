"""The lines of values and errors in YAML."""

import pytest

from nri_numamem.config.strict_yaml import DocumentError, decode, line_of, parse, parse_all


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
