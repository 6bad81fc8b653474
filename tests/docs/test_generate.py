"""Generated pages are up to date with their tables."""

import sys
from pathlib import Path
from types import ModuleType

import pytest

from nri_numamem.config.settings import described_settings
from tests.engine.records.examples import EVENTS
from tests.load_module import load_module

DOCS = Path(__file__).resolve().parents[2] / "docs"
CHART_SCHEMA = DOCS.parent / "packaging/helm/nri-numamem/values.schema.json"


@pytest.fixture
def generate(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    module = load_module(DOCS / "generate.py")
    monkeypatch.setattr(module, "FOLDER", tmp_path)
    monkeypatch.setattr(module, "UNIT_COPY", tmp_path / "unit_text.py")
    schema = tmp_path / "values.schema.json"
    schema.write_text(CHART_SCHEMA.read_text())
    monkeypatch.setattr(module, "CHART_SCHEMA", schema)
    monkeypatch.setattr(sys, "argv", ["generate.py"])
    return module


def test_the_pages_are_up_to_date(generate: ModuleType) -> None:
    pages = {path.name: text for path, text in generate.pages().items()}
    unit = pages.pop("unit_text.py")
    assert unit == (DOCS.parent / "nri_numamem/cli/installation/unit_text.py").read_text()
    assert pages.pop("values.schema.json") == CHART_SCHEMA.read_text()
    assert set(pages) == {"events.md", "configuration.md"}
    assert {name: (DOCS / name).read_text() for name in pages} == pages


def test_the_page_of_events_has_every_event(generate: ModuleType) -> None:
    page = generate.events_page()
    assert [event for event in EVENTS if f"\n### {event}\n" not in page] == []


def test_the_page_of_settings_has_every_key(generate: ModuleType) -> None:
    page = generate.configuration_page()
    assert [key for key, _, _ in described_settings() if f"\n## {key}\n" not in page] == []
    assert "- Default: unset\n" in page
    assert "- Default: `Static`\n- Kubelet: `memoryManagerPolicy`\n" in page
    assert "- Flag: `--log-level`\n\nThe lowest level that is logged.\n" in page


def test_check_finds_a_page_that_is_missing_or_stale(
    generate: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["generate.py", "--check"])
    assert generate.main() == 1
    (generate.FOLDER / "events.md").write_text("old")
    assert generate.main() == 1
    assert "run `make generate`" in capsys.readouterr().err


def test_a_generated_page_passes_the_check(
    generate: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert generate.main() == 0
    monkeypatch.setattr(sys, "argv", ["generate.py", "--check"])
    assert generate.main() == 0
