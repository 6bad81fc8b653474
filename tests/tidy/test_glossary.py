"""Names and texts for operators use the terms of docs/glossary.md, and no retired ones."""

import argparse
import ast
import io
import keyword
import re
import tokenize
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest

from nri_numamem.cli import main as cli
from nri_numamem.observe.metrics import exposition
from tests.engine.records.examples import EVENTS
from tests.tidy.source import PACKAGE, ROOT, name_of, source_files

GLOSSARY = ROOT / "docs" / "glossary.md"
IDENTIFIER, WORD, TEXT = "identifier", "word", "text"


@dataclass(frozen=True, slots=True)
class Retired:
    """One row of the table of retired terms."""

    term: str
    instead: str
    where: str

    def is_in_name(self, name: str) -> bool:
        """Return whether an identifier is, or as a word contains, the term."""
        words = words_of(name)
        if self.where == IDENTIFIER:
            return "_".join(words) == self.term
        return self.where == WORD and self.term in words

    def is_in_text(self, text: str) -> bool:
        """Return whether a text for operators contains the term."""
        return self.where == TEXT and bool(re.search(rf"\b{self.term}\b", text, re.IGNORECASE))


@cache
def words_of(name: str) -> list[str]:
    """Return the words of an identifier in lower case: `_SecondLook` -> second, look."""
    spaced = re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", name)
    return [word for word in spaced.lower().split("_") if word]


def retired_terms() -> list[Retired]:
    section = GLOSSARY.read_text().split("## Retired terms")[1]
    rows = [
        [cell.strip() for cell in line.strip("|").split("|")]
        for line in section.splitlines()
        if line.startswith("| ") and not line.startswith("| retired ")
    ]
    return [Retired(*row) for row in rows]


RETIRED = retired_terms()


def names_in(path: Path) -> Iterator[str]:
    """Yield the module's name and every identifier in a file."""
    yield path.parent.name if path.name == "__init__.py" else path.stem
    with io.BytesIO(path.read_bytes()) as source:
        for token in tokenize.tokenize(source.readline):
            if token.type == tokenize.NAME and not keyword.iskeyword(token.string):
                yield token.string


def retired_in_names(names: Iterator[str]) -> set[str]:
    return {f"{name}: {r.term}" for name in set(names) for r in RETIRED if r.is_in_name(name)}


def texts_of_commands() -> Iterator[str]:
    """Yield the descriptions and helps that `nri-numamem COMMAND --help` prints."""
    yield from cli.COMMANDS.values()
    for command in cli.COMMANDS:
        parser = argparse.ArgumentParser()
        cli._module(command).add_arguments(parser)
        yield from texts_of(parser)


def texts_of(parser: argparse.ArgumentParser) -> Iterator[str]:
    yield from (text for text in (parser.description, parser.epilog) if text)
    yield from (group.title for group in parser._action_groups if group.title)
    for action in parser._actions:
        yield from (text for text in (action.help, action.metavar) if isinstance(text, str))
        if isinstance(action, argparse._SubParsersAction):
            yield from (choice.help or "" for choice in action._choices_actions)
            for nested in action.choices.values():
                yield from texts_of(nested)


def texts_of_metrics() -> Iterator[str]:
    """Yield every text in the module that names and describes the metrics."""
    tree = ast.parse(Path(exposition.__file__).read_text())
    documentation = {
        id(node.body[0].value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef)
        and isinstance(node.body[0], ast.Expr)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and id(node) not in documentation:
            yield str(node.value)


def test_the_table_is_complete() -> None:
    assert len(RETIRED) > 50
    assert {r.where for r in RETIRED} == {IDENTIFIER, WORD, TEXT}
    assert len({(r.term, r.where) for r in RETIRED}) == len(RETIRED)
    for retired in RETIRED:
        assert retired.where == TEXT or words_of(retired.term) == retired.term.split("_")
        assert retired.where != WORD or "_" not in retired.term


@pytest.mark.parametrize("path", source_files(PACKAGE), ids=name_of)
def test_names_in_the_package(path: Path) -> None:
    assert retired_in_names(names_in(path)) == set()


def test_names_of_events() -> None:
    assert retired_in_names(iter(EVENTS)) == set()


def test_texts_of_commands_and_metrics() -> None:
    texts = [*texts_of_commands(), *texts_of_metrics()]
    assert any("Prometheus" in text for text in texts)
    assert any("Synchronize" in text for text in texts)
    found = {(text, r.term) for text in texts for r in RETIRED if r.is_in_text(text)}
    assert found == set()


def test_metric_names_and_labels() -> None:
    names = (text for text in texts_of_metrics() if re.fullmatch(r"[a-z_]+", text))
    assert retired_in_names(names) == set()


def test_retired_terms_are_found() -> None:
    word, whole, text = (
        Retired("books", "", WORD),
        Retired("give_back", "", IDENTIFIER),
        Retired("told", "", TEXT),
    )
    assert word.is_in_name("empty_books")
    assert word.is_in_name("WrongBooks")
    assert not word.is_in_name("bookshelf")
    assert whole.is_in_name("_give_back")
    assert whole.is_in_name("GiveBack")
    assert not whole.is_in_name("give_back_all")
    assert text.is_in_text("Pods that nobody Told of.")
    assert not text.is_in_text("untold")
