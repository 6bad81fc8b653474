"""The example file: it sets nothing, and its commented keys are the defaults."""

import re

from nri_numamem.config.example import example_text
from nri_numamem.config.load import load_text
from nri_numamem.config.settings import STATE_FILE, Settings, described_settings


def test_the_example_sets_nothing() -> None:
    assert load_text(example_text(), "example") == Settings()


def test_the_keys_without_their_marks_are_the_defaults() -> None:
    lines = re.sub(r"^# .*$", "", example_text(), flags=re.MULTILINE)
    text = re.sub(r"^#", "", lines, flags=re.MULTILINE)
    assert load_text(text, "example") == Settings(state_file=STATE_FILE)


def test_every_key_is_there_and_lines_are_short() -> None:
    lines = example_text().splitlines()
    for key, _, _ in described_settings():
        option = key.rpartition(".")[2]
        assert any(re.match(rf"#( *){re.escape(option)}:", line) for line in lines), option
    assert max(map(len, lines)) <= 100
