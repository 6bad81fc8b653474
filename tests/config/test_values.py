"""Single values: accepted forms, null, and errors with place and remedy."""

from collections.abc import Iterable

import pytest

from nri_numamem.config.values import (
    SettingsError,
    read_address,
    read_amount_text,
    read_choice,
    read_go_bool,
    read_integer,
    read_list,
    read_mapping,
    read_names,
    read_node_set,
    read_path,
    read_quantity,
    read_word,
    show,
    suggest,
)
from nri_numamem.numa import NodeSet

PATH = ("a", 0, "b")
NAMES = ("memoryPolicy", "namespaces")
NO, YES = False, True


def error_of(action: object, *arguments: object, **options: object) -> str:
    assert callable(action)
    with pytest.raises(SettingsError) as caught:
        action(PATH, *arguments, **options)
    assert caught.value.path[: len(PATH)] == PATH
    return str(caught.value)


def test_mappings() -> None:
    assert read_mapping(PATH, None) == {}
    assert read_mapping(PATH, {"x": 1}) == {"x": 1}
    assert error_of(read_mapping, []) == "a[0].b: a list instead of a mapping; write KEY: VALUE"
    assert error_of(read_mapping, {1: 2}) == "a[0].b: the key 1 is not text; put it in quotes"
    assert error_of(read_mapping, {"logLvel": 1}, ("logLevel",)) == (
        "a[0].b.logLvel: unknown key; did you mean logLevel? allowed: logLevel"
    )


def test_a_key_of_many_lines_is_shown_on_one() -> None:
    assert error_of(read_mapping, {"x\ny": 1}, ("z",)).startswith("a[0].b.'x\\ny': unknown key; ")
    assert error_of(read_mapping, {"x" * 99: 1}, ("z",)).startswith(f"a[0].b.{'x' * 57}...: ")


def test_choices() -> None:
    assert read_choice(PATH, None, ("one", "two")) == "one"
    assert read_choice(PATH, "two", ("one", "two")) == "two"
    assert error_of(read_choice, "tow", ("one", "two")) == (
        "a[0].b: unknown value 'tow'; did you mean two? allowed: one, two"
    )
    assert read_choice(PATH, NO, ("one", "off")) == "off"
    assert error_of(read_choice, YES, ("off",)) == "a[0].b: unknown value True; allowed: off"
    assert error_of(read_choice, NO, ("one",)) == "a[0].b: unknown value False; allowed: one"
    assert error_of(read_choice, 5, ("one",)) == "a[0].b: unknown value 5; allowed: one"


@pytest.mark.parametrize("value", ["1", "t", "T", "true", "TRUE", "True", True, 1])
def test_booleans_that_go_reads_as_true(value: object) -> None:
    assert read_go_bool(PATH, value)


@pytest.mark.parametrize("value", ["0", "f", "F", "false", "FALSE", "False", False, 0])
def test_booleans_that_go_reads_as_false(value: object) -> None:
    assert not read_go_bool(PATH, value)


def test_other_booleans() -> None:
    assert error_of(read_go_bool, "yes") == (
        'a[0].b: \'yes\' is not a boolean; write "true" or "false"'
    )


def test_integers() -> None:
    assert read_integer(PATH, 5, least=0, most=9) == 5
    assert read_integer(PATH, " 5 ", least=0, most=9) == 5
    remedy = "write a whole number from 0 to 9"
    for value in (-1, 10, True, 5.0, "x", "\u0665", "12345678901"):
        assert error_of(read_integer, value, least=0, most=9) == (
            f"a[0].b: {value!r} is out of range; {remedy}"
        )
    assert error_of(read_integer, None, least=0, most=9) == f"a[0].b: missing; {remedy}"


def test_addresses() -> None:
    assert read_address(PATH, None) == read_address(PATH, "") == ""
    assert read_address(PATH, "localhost:1") == "localhost:1"
    assert read_address(PATH, "[::1]:65535") == "[::1]:65535"
    for value in ("localhost", "localhost:0", "localhost:65536", ":1", 5):
        assert f"{value!r} is not an address; write HOST:PORT" in error_of(read_address, value)


def test_amounts() -> None:
    assert read_amount_text(PATH, 5) == "5"
    assert read_amount_text(PATH, 0.5) == "0.5"
    assert read_amount_text(PATH, "5%") == "5%"
    for value, shown in ((True, "True"), ([], "a list"), (1 << 200, "a huge number")):
        assert error_of(read_amount_text, value) == (
            f"a[0].b: {shown} instead of an amount; write an amount such as 512Mi"
        )


def test_quantities() -> None:
    assert read_quantity(PATH, "1Ki") == read_quantity(PATH, 1024) == 1024
    assert error_of(read_quantity, "1Xi").endswith("; write an amount such as 512Mi")
    assert "None instead of an amount" in error_of(read_quantity, None)


def test_suggestions_ignore_case_and_dashes() -> None:
    assert suggest("log-LEVEL", ("logLevel", "logFile")) == (
        "did you mean logLevel? allowed: logLevel, logFile"
    )
    assert suggest("zzz", ("logLevel", "x\n")) == "allowed: logLevel, 'x\\n'"


def test_shown_values_are_short_and_on_one_line() -> None:
    assert show({}) == "a mapping"
    assert show({1}) == show((1,)) == "a list"
    assert show(-(1 << 200)) == "a huge number"
    assert len(show("x\n" * 99)) == 60


def test_a_word_is_one_of_the_allowed() -> None:
    assert read_word(PATH, "two", ("one", "two"), "mode") == "two"
    assert error_of(read_word, None, ("one",), "mode") == ("a[0].b: no mode; write one of: one")


def test_lists() -> None:
    assert read_list(PATH, ["a"], "write a list") == ["a"]
    assert error_of(read_list, {}, "write a list") == (
        "a[0].b: a mapping instead of a list; write a list"
    )


def test_names_keep_their_order_without_repetitions() -> None:
    assert read_names(NAMES, ["b", "a", "b"], "a namespace") == ("b", "a")


@pytest.mark.parametrize("value", ["shop", 1, {"a": 1}])
def test_other_values_than_lists_are_refused(value: object) -> None:
    with pytest.raises(SettingsError, match=r"^memoryPolicy\.namespaces: .* instead of a list; w"):
        read_names(NAMES, value, "a namespace")


@pytest.mark.parametrize("name", ["", 1, None, "a\nb", "x" * 254])
def test_invalid_names_are_refused(name: object) -> None:
    problem = r"^memoryPolicy\.namespaces\[1\]: .* is not a namespace; write a namespace$"
    with pytest.raises(SettingsError, match=problem):
        read_names(NAMES, ["a", name], "a namespace")


@pytest.mark.parametrize("value", ["/a", "/" + "x" * 4094])
def test_absolute_paths(value: str) -> None:
    assert read_path(PATH, value, "/a") == value


@pytest.mark.parametrize("value", ["", "a/b", 1, "/a\0b", "/" + "x" * 4095])
def test_other_values_than_absolute_paths_are_refused(value: object) -> None:
    assert error_of(read_path, value, "/a").endswith(
        " is not an absolute path; write a path such as /a"
    )


@pytest.mark.parametrize(
    ("value", "nodes"),
    [("4-7", range(4, 8)), ("2,4", [2, 4]), ("0", [0]), (0, [0]), (1023, [1023])],
)
def test_numa_nodes(value: object, nodes: Iterable[int]) -> None:
    assert read_node_set(PATH, value) == NodeSet(nodes)


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        ("", "'' is not a list of NUMA nodes"),
        ("node4", "'node4' is not a list of NUMA nodes"),
        ("3-2", "'3-2' is not a list of NUMA nodes"),
        ("1024", "'1024' is not a list of NUMA nodes"),
        (-1, "-1 is not a list of NUMA nodes"),
        (YES, "True is not a list of NUMA nodes"),
        ([2, 3], "a list instead of NUMA nodes as text"),
        ({2: 3}, "a mapping instead of NUMA nodes as text"),
        (None, "None instead of NUMA nodes as text"),
        (1.5, "1.5 instead of NUMA nodes as text"),
    ],
)
def test_other_values_than_numa_nodes_are_refused(value: object, problem: str) -> None:
    remedy = 'write ids from 0 to 1023, such as "4-7" or "2,4"'
    assert error_of(read_node_set, value) == f"a[0].b: {problem}; {remedy}"
