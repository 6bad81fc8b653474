"""The strictness of the YAML parser."""

import pytest

from nri_numamem.config.documents import MAX_DEPTH, MAX_VALUES, DocumentError, parse, parse_all


def error_of(text: str) -> str:
    with pytest.raises(DocumentError) as caught:
        parse(text, "file")
    return str(caught.value)


def test_dates_stay_text_and_other_scalars_have_types() -> None:
    _, document = parse("a: 2020-01-01\nb: 5\nc: yes\nd: ~\n", "file")
    assert document == {"a": "2020-01-01", "b": 5, "c": True, "d": None}


def test_numbers_of_yaml_1_1_alone_stay_text() -> None:
    words = ["010", "1_000", "1:30", "0x10", "0b1", "1_0.5", "1:30.5", "12e6"]
    _, document = parse("\n".join(f"- {word}" for word in words), "file")
    assert document == words
    numbers = "[0, -7, +7, 10, 1.5, -.5, 1.5e-3, .inf]"
    assert parse(numbers, "file")[1] == [0, -7, 7, 10, 1.5, -0.5, 0.0015, float("inf")]


def test_repeated_keys_at_any_depth() -> None:
    assert error_of("a: 1\nb: 2\na: 3\n") == (
        "file:3: the key 'a' is given twice; keep one of the two"
    )
    assert error_of("x:\n- {b: 1,\n   b: 2}\n").startswith("file:3: the key 'b' is given twice")


def test_invalid_tagged_scalars_and_unknown_tags() -> None:
    assert error_of("a: 1\nb: !!bool x\n").startswith("file:2: 'x' in a value of type bool; ")
    assert error_of("!!python/name:os.system x").startswith("file:1: could not determine")


@pytest.mark.parametrize(
    "text",
    [
        "a: &a {k: 1}\nb: {<<: *a}",
        "a: &a {k: 1}\nb: {x: 1, <<: [*a, *a]}",
        "a: 1\nb: {<<: {k: 1}}",
        "a: 1\n!!merge b: {k: 1}",
        "-\n- <<",
        "a: 1\nb: <<",
    ],
)
def test_merge_keys_are_refused(text: str) -> None:
    expected = "file:2: the merge key << is not supported; write out its keys instead"
    assert error_of(text) == expected


def test_merge_keys_that_refer_to_each_other_are_refused_at_once() -> None:
    lines = ["a0: &a0 {k: v}"]
    lines += [f"a{n}: &a{n} {{<<: [*a{n - 1}, *a{n - 1}]}}" for n in range(1, 60)]
    assert error_of("\n".join(lines)).startswith("file:2: the merge key << is not supported; ")


def test_a_quoted_key_is_no_merge_key() -> None:
    assert parse('"<<": 1', "file")[1] == {"<<": 1}


@pytest.mark.parametrize("text", ["[" * 100_000, "- " * 100_000, "? " * 100_000, "{a: " * 100_000])
def test_deep_nesting_is_refused(text: str) -> None:
    assert error_of(text) == "file:1: nested too deeply, more than 64 levels; simplify it"


def test_deep_nesting_names_its_line() -> None:
    blocks = "\n".join(" " * depth + "-" for depth in range(MAX_DEPTH + 9))
    assert error_of(blocks).startswith(f"file:{MAX_DEPTH + 1}: nested too deeply")
    levels = MAX_DEPTH - 1
    assert parse("[" * levels + "1" + "]" * levels, "file")[1]
    assert error_of("[" * MAX_DEPTH + "1" + "]" * MAX_DEPTH).startswith("file:1: nested too deeply")


def test_an_alias_has_the_depth_of_its_value() -> None:
    half = MAX_DEPTH // 2
    inner = "&a " + "[" * half + "]" * half
    assert parse(f"- {inner}\n- [*a]\n", "file")[1]
    outer = "[" * half + "*a" + "]" * half
    assert error_of(f"- {inner}\n- {outer}\n").startswith("file:2: nested too deeply")


def test_many_values_are_refused() -> None:
    assert parse("a\n" * 10, "file", 1)[1]
    assert len(parse("- a\n" * (MAX_VALUES - 1), "file")[1]) == MAX_VALUES - 1  # type: ignore[arg-type]
    assert error_of("- a\n" * (MAX_VALUES + 9)).startswith(
        f"file:{MAX_VALUES}: more than {MAX_VALUES} values; "
    )


def test_aliases_count_as_often_as_they_are_used() -> None:
    assert parse("a: &a [1, 2]\nb: *a\n", "file")[1] == {"a": [1, 2], "b": [1, 2]}
    lines = ["a0: &a0 [x, x]"]
    lines += [f"a{n}: &a{n} [*a{n - 1}, *a{n - 1}]" for n in range(1, 60)]
    assert "values; make it shorter, and use fewer aliases" in error_of("\n".join(lines))


def test_an_alias_in_its_own_value_is_refused() -> None:
    assert error_of("a: 1\nb: &b [*b]\n") == (
        "file:2: the alias *b is inside of its own value; remove it"
    )
    assert error_of("b: [*b]\n").startswith("file:1: found undefined alias 'b'; ")


def test_values_and_aliases_are_counted() -> None:
    assert parse("[&a [1], *a]", "file", 5)[1] == [[1], [1]]
    with pytest.raises(DocumentError, match=r"^file:1: more than 4 values; "):
        parse("[&a [1], *a]", "file", 4)
    with pytest.raises(DocumentError, match=r"^file:1: more than 6 values; "):
        parse("[&a [1], 2, *a, *a]", "file", 6)


def test_an_anchor_of_an_earlier_document_is_forgotten() -> None:
    with pytest.raises(DocumentError, match=r"^file:3: the alias \*a is inside of its own value; "):
        parse_all("&a [1]\n---\n&a [*a]\n", "file", 9)
