import json

import pytest

from nri_numamem.engine.core.text import cut, cut_name, escape


def test_short_texts_are_not_cut() -> None:
    assert cut("") == ""
    assert cut("abc", 3) == "abc"
    assert cut_name("x" * 256) == "x" * 256


def test_long_texts_are_cut_and_show_their_length() -> None:
    assert cut("abcd", 3) == "abc... (4 characters)"
    assert cut_name("x" * 257) == "x" * 256 + "... (257 characters)"
    assert len(cut("x" * 1_000_000)) < 4200


@pytest.mark.parametrize("text", ["", "a pod", 'quotes " and \\', "Zürich 東京 🙂"])
def test_printable_texts_stay(text: str) -> None:
    assert escape(text) == text


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a\nb\tc", r"a\nb\tc"),
        ("\x00\x1b[2J", r"\u0000\u001b[2J"),
        ("\x7f\x80\x9f", r"\u007f\u0080\u009f"),
        ("\u2028\u2029", r"\u2028\u2029"),
        ("\u202e\u2066\u200f\u061c", r"\u202e\u2066\u200f\u061c"),
        ("\ufeff\u00a0\u3000", r"\ufeff\u00a0\u3000"),
        ("\U000e0041", r"\udb40\udc41"),
        ("\ud800", r"\ud800"),
    ],
)
def test_other_characters_are_escaped_as_in_json(text: str, expected: str) -> None:
    assert escape(text) == expected
    assert escape(f"ü{text}ü") == f"ü{expected}ü"
    assert json.loads(f'"{expected}"') == text
