"""Configurations in the documents can be parsed, and say what the page promises."""

import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import unquote

import pytest
import yaml

from nri_numamem.cli.runtimes import NRI_TABLE

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", *sorted(ROOT.glob("docs/**/*.md"))]
IMMUTABLE_HOSTS = ROOT / "docs/immutable-hosts.md"
_BLOCK = re.compile(r"^```(\w+)\n(.*?)^```", re.MULTILINE | re.DOTALL)


def blocks(page: Path, language: str) -> list[str]:
    """Return the texts of a page's fenced blocks in one language."""
    return [text for name, text in _BLOCK.findall(page.read_text()) if name == language]


def texts(value: object) -> Iterator[str]:
    """Yield every text in a document."""
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list):
        for part in value:
            yield from texts(part)
    elif isinstance(value, str):
        yield value


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_yaml_and_toml_can_be_parsed(page: Path) -> None:
    for text in blocks(page, "yaml"):
        assert all(document is not None for document in yaml.safe_load_all(text))
    for text in blocks(page, "toml"):
        assert tomllib.loads(text)


def test_every_configuration_of_containerd_enables_nri() -> None:
    documents = [yaml.safe_load(text) for text in blocks(IMMUTABLE_HOSTS, "yaml")]
    inside = [text for document in documents for text in texts(document) if "[plugins" in text]
    found = [tomllib.loads(text) for text in (*blocks(IMMUTABLE_HOSTS, "toml"), *inside)]
    assert len(found) == 3
    assert all(document == {"plugins": {NRI_TABLE: {"disable": False}}} for document in found)


def test_the_machine_config_enables_nri_in_cri_o() -> None:
    documents = [yaml.safe_load(text) for text in blocks(IMMUTABLE_HOSTS, "yaml")]
    (source,) = [x for document in documents for x in texts(document) if x.startswith("data:,")]
    assert tomllib.loads(unquote(source.removeprefix("data:,"))) == {
        "crio": {"nri": {"enable_nri": True}}
    }
