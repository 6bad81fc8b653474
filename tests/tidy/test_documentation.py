"""Documents name what exists, and what a user can set is written down."""

import argparse
import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from nri_numamem.cli import run
from nri_numamem.config import settings
from tests.engine.records.examples import EVENTS
from tests.tidy.source import PACKAGE, ROOT, modules, name_of

DOCUMENTS = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("tests/**/*.md")])
ROOMS = {path.name for path in (ROOT / PACKAGE).iterdir() if path.is_dir()}
FOLDERS = {path.name for path in ROOT.iterdir() if path.is_dir()} - {"build", "dist"}
# In documents `engine/core/plan` and `engine/core/plan.Plan` are a module of the package and a
# name in it.
REFERENCE = re.compile(r"([\w.-]+(?:/[\w.-]+)*/?)")
IN_BACKTICKS = re.compile(r"`([^`\n]+)`")
LINK = re.compile(r"\]\(([^)#:\s]+)(?:#[^)]*)?\)")
ARCHITECTURE_WORDS_LIMIT = 1500


@pytest.mark.parametrize("path", DOCUMENTS, ids=name_of)
def test_documents_have_no_marks_of_a_merge(path: Path) -> None:
    assert not re.search(r"^(<{7}|>{7}) ", path.read_text(), flags=re.MULTILINE)


def documented() -> str:
    pages = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
    return "\n".join(page.read_text() for page in pages)


def without_blocks(text: str) -> str:
    """Return Markdown without its fenced blocks."""
    return re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL)


def references(text: str) -> Iterator[str]:
    """Yield what stands in backticks and begins with a room or a folder of the repository."""
    for token in IN_BACKTICKS.findall(without_blocks(text)):
        head, slash, _ = token.partition("/")
        if slash and REFERENCE.fullmatch(token) and head in ROOMS | FOLDERS:
            yield token


def exists(reference: str) -> bool:
    """Return whether a reference is a file, a folder, a module, or a name in a module."""
    for base in (ROOT, ROOT / PACKAGE):
        path = base / reference
        if path.exists() or path.with_name(f"{path.name}.py").is_file():
            return True
        file, *names = path.name.split(".")
        if names and defines(path.with_name(f"{file}.py"), names):
            return True
    return False


def defines(file: Path, names: list[str]) -> bool:
    """Return whether a module defines a name, or a class in it the next name, and so on."""
    if not file.is_file():
        return False
    body: list[ast.stmt] = ast.parse(file.read_text()).body
    for name in names:
        found = next((node for node in body if name in names_of(node)), None)
        if found is None:
            return False
        body = getattr(found, "body", [])
    return True


def names_of(node: ast.stmt) -> set[str]:
    """Return the names that a statement defines."""
    if isinstance(node, ast.FunctionDef | ast.ClassDef):
        return {node.name}
    if isinstance(node, ast.AnnAssign):
        return {node.target.id} if isinstance(node.target, ast.Name) else set()
    if isinstance(node, ast.Assign):
        return {target.id for target in node.targets if isinstance(target, ast.Name)}
    return set()


@pytest.mark.parametrize("page", DOCUMENTS, ids=name_of)
def test_paths_and_modules_in_documents_exist(page: Path) -> None:
    missing = {name for name in references(page.read_text()) if not exists(name)}
    assert missing == set()


@pytest.mark.parametrize("page", DOCUMENTS, ids=name_of)
def test_dotted_modules_in_documents_exist(page: Path) -> None:
    named = set(re.findall(r"\bnri_numamem(?:\.\w+)+", page.read_text()))
    known = set(modules())
    assert {name for name in named if not {name, name.rpartition(".")[0]} & known} == set()


@pytest.mark.parametrize("page", DOCUMENTS, ids=name_of)
def test_links_in_documents_lead_somewhere(page: Path) -> None:
    links = LINK.findall(without_blocks(page.read_text()))
    assert [link for link in links if not (page.parent / link).exists()] == []


@pytest.mark.parametrize("page", DOCUMENTS, ids=name_of)
def test_make_targets_in_documents_exist(page: Path) -> None:
    targets = set(re.findall(r"^([a-z0-9-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    text = page.read_text()
    blocks = "\n".join(re.findall(r"^```.*?^```", text, re.MULTILINE | re.DOTALL))
    named = {*re.findall(r"`make ([a-z][a-z0-9-]*)", text)}
    named |= {*re.findall(r"^make ([a-z][a-z0-9-]*)", blocks, re.MULTILINE)}
    assert named <= targets


@pytest.mark.parametrize("page", DOCUMENTS, ids=name_of)
def test_events_in_documents_exist(page: Path) -> None:
    """A name that follows "record" or "logs" is the name of an event."""
    named = re.findall(r"(?:record(?: is)?|logs|logged as|reported as) `(\w+)`", page.read_text())
    assert set(named) <= set(EVENTS)


def test_references_are_found_and_judged() -> None:
    text = "`engine/core/plan.Plan` `numa/` `a/b` `docs/limits.md`\n```\n`engine/none`\n```\n"
    assert list(references(text)) == ["engine/core/plan.Plan", "numa/", "docs/limits.md"]
    assert all(exists(name) for name in references(text))
    assert exists("memorymanager/candidates.Candidates.best")
    assert not exists("engine/core/plan.Nothing")
    assert not exists("engine/nothing")
    assert not exists("memorymanager/candidates.Candidates.worst")


def test_the_overview_stays_short() -> None:
    words = (ROOT / "ARCHITECTURE.md").read_text().split()
    assert len(words) <= ARCHITECTURE_WORDS_LIMIT


def test_every_setting_is_documented() -> None:
    words = set(re.findall(r"\w+", documented()))
    assert set(settings.KEYS) - words == set()


def test_every_flag_that_is_documented_exists() -> None:
    parser = argparse.ArgumentParser()
    run.add_arguments(parser)
    flags = {flag for action in parser._actions for flag in action.option_strings}
    named = set(re.findall(r"nri-numamem run.*", documented()))
    used = {flag for line in named for flag in re.findall(r"--[a-z-]+", line)}
    assert used
    assert used <= flags
