"""The pictures of the documents are what the commands print today."""

import re
from xml.etree import ElementTree as ET

import pytest
from rich.text import Text

from tests.pictures.pictures import FOLDER, pictures
from tests.pictures.svg import THEMES, render

pytestmark = pytest.mark.slow

NAMES = ("run", "status", "explain", "inspect", "doctor")
BYTES_MOST = 60_000


@pytest.fixture(name="rendered", scope="module")
def _rendered() -> dict[str, str]:
    return pictures()


def test_the_files_are_up_to_date(rendered: dict[str, str]) -> None:
    files = {path.name: path.read_text(encoding="utf-8") for path in FOLDER.iterdir()}
    assert set(files) == {f"{name}-{theme}.svg" for name in NAMES for theme in THEMES}
    stale = [name for name, svg in files.items() if rendered[name] != svg]
    assert stale == [], "run `make pictures`"


def test_they_show_what_they_should(rendered: dict[str, str]) -> None:
    for name, words in {
        "run": "The plugin replied to",
        "status": "fits now",
        "explain": "remedy",
        "inspect": "distances to 0-3",
        "doctor": "FAIL",
    }.items():
        assert words in text_of(rendered[f"{name}-light.svg"])


def test_they_are_small_and_load_nothing(rendered: dict[str, str]) -> None:
    for name, svg in rendered.items():
        assert len(svg.encode()) < BYTES_MOST, name
        assert not re.search(r"@font-face|@import|href|url\((?!#)", svg), name


def test_each_page_has_both_themes_of_a_picture() -> None:
    root = FOLDER.parents[1]
    shown = set()
    for page in (root / "README.md", *root.glob("docs/*.md")):
        used = re.findall(r'(?:src|srcset)="(\S+\.svg)"', page.read_text())
        assert all((page.parent / path).is_file() for path in used), page
        names = [path.rpartition("/")[2] for path in used]
        assert names[::2] == [name.replace("-light", "-dark") for name in names[1::2]], page
        shown |= set(names)
    assert shown == {path.name for path in FOLDER.iterdir()}


def test_a_screen_keeps_its_columns_and_colours() -> None:
    printed = Text.from_ansi("\x1b[1ma\x1b[0m  b\n    \x1b[31mc\x1b[0m")
    svg = render("x", "title", printed)["x-light.svg"]
    found = [
        (element.text, float(element.attrib["x"]))
        for element in ET.fromstring(svg).iter("{http://www.w3.org/2000/svg}text")  # noqa: S314 - ours
        if element.text != "title"
    ]
    assert found == [("a", 0), ("b", 36), ("c", 48)]
    assert "fill: #cf222e" in svg


def text_of(svg: str) -> str:
    """Return the text in an SVG, without its coordinates."""
    return "".join(ET.fromstring(svg).itertext()).replace("\xa0", " ")  # noqa: S314 - our own file
