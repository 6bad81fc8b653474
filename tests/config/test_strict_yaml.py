"""The YAML parser's strictness, and the lines of values and errors."""

import pytest

from nri_numamem.config.strict_yaml import DocumentError, decode, line_of, parse


def error_of(text: str) -> str:
    with pytest.raises(DocumentError) as caught:
        parse(text, "file")
    return str(caught.value)


def test_text_without_content() -> None:
    assert parse("", "file") == (None, None)
    assert parse("# comment\n", "file") == (None, None)


def test_dates_stay_text_and_other_scalars_have_types() -> None:
    _, document = parse("a: 2020-01-01\nb: 5\nc: yes\nd: ~\n", "file")
    assert document == {"a": "2020-01-01", "b": 5, "c": True, "d": None}


def test_numbers_of_yaml_1_1_alone_stay_text() -> None:
    words = ["010", "1_000", "1:30", "0x10", "0b1", "1_0.5", "1:30.5", "12e6"]
    _, document = parse("\n".join(f"- {word}" for word in words), "file")
    assert document == words
    numbers = "[0, -7, +7, 10, 1.5, -.5, 1.5e-3, .inf]"
    assert parse(numbers, "file")[1] == [0, -7, 7, 10, 1.5, -0.5, 0.0015, float("inf")]


def test_json_is_yaml() -> None:
    assert parse('{"a": [1, "x"]}', "file")[1] == {"a": [1, "x"]}


def test_repeated_keys_at_any_depth() -> None:
    assert error_of("a: 1\nb: 2\na: 3\n") == (
        "file:3: the key 'a' is given twice; keep one of the two"
    )
    assert error_of("x:\n- {b: 1,\n   b: 2}\n").startswith("file:3: the key 'b' is given twice")


def test_syntax_errors_name_the_line() -> None:
    assert error_of("a: [\nb").startswith("file:")
    assert error_of("a: 1\n\tb: 2\n").endswith("check indentation, quotes and colons there")
    assert error_of("a: 1\nb: \x00\n") == (
        "file:2: the character '\\x00' is not allowed; remove it"
    )


def test_invalid_tagged_scalars_and_unknown_tags() -> None:
    assert error_of("a: 1\nb: !!bool x\n").startswith("file:2: 'x' in a value of type bool; ")
    assert error_of("!!python/name:os.system x").startswith("file:1: could not determine")


def test_deep_nesting() -> None:
    assert error_of("[" * 5000) == "file:1: nested too deeply; simplify it"


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
