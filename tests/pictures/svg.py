"""Renders the coloured output of a command as SVG, light and dark, without external files."""

import io
import re
from collections.abc import Mapping

from rich.console import Console
from rich.style import Style
from rich.terminal_theme import TerminalTheme
from rich.text import Text

COLUMNS = 80
_Rgb = tuple[int, int, int]


def _theme(background: int, foreground: int, *colors: int) -> TerminalTheme:
    """Return a theme from 0xRRGGBB: background, text, and the eight colours of a terminal."""
    ansi = [_rgb(color) for color in colors]
    return TerminalTheme(_rgb(background), _rgb(foreground), ansi, ansi)


def _rgb(color: int) -> _Rgb:
    return (color >> 16, color >> 8 & 255, color & 255)


THEMES: Mapping[str, TerminalTheme] = {
    "light": _theme(
        0xFFFFFF, 0x1F2328,
        0x1F2328, 0xCF222E, 0x116329, 0x9A6700, 0x0969DA, 0x8250DF, 0x1B7C83, 0x6E7781,
    ),
    "dark": _theme(
        0x0D1117, 0xE6EDF3,
        0x484F58, 0xFF7B72, 0x3FB950, 0xD29922, 0x58A6FF, 0xBC8CFF, 0x39C5CF, 0xB1BAC4,
    ),
}  # fmt: skip

# Rich's own template loads a font from a server. In most monospace fonts a character is 0.6 wide.
_ASPECT_RATIO = 0.6
_WHITE_BORDER, _BORDER = "rgba(255,255,255,0.35)", "rgba(128,128,128,0.5)"
_TEMPLATE = """\
<svg viewBox="0 0 {width} {height}" xmlns="http://www.w3.org/2000/svg">
<style>
.{unique_id}-matrix {{
  font-family: ui-monospace, Menlo, Consolas, "DejaVu Sans Mono", monospace;
  font-size: {char_height}px; line-height: {line_height}px;
}}
.{unique_id}-title {{ font-family: sans-serif; font-size: 18px; font-weight: bold; }}
{styles}
</style>
<defs>
<clipPath id="{unique_id}-clip-terminal">
<rect x="0" y="0" width="{terminal_width}" height="{terminal_height}"/>
</clipPath>
{lines}
</defs>
{chrome}
<g transform="translate({terminal_x}, {terminal_y})" clip-path="url(#{unique_id}-clip-terminal)">
{backgrounds}
<g class="{unique_id}-matrix">
{matrix}
</g>
</g>
</svg>
"""


# Some programs ignore blanks at the ends of an element. A style of their own makes them elements of
# their own, which rich leaves out.
_END_OF_LINE = re.compile(r"<text [^>]*>\n</text>")
_BLANKS = re.compile(r"^ +|  +| +$", re.MULTILINE)


def _blank(_text: str) -> Style:
    return Style(meta={"blank": True})


def render(name: str, title: str, printed: Text) -> dict[str, str]:
    """Return file name -> SVG of a screen in each theme; `name` makes its ids unique."""
    pictures = {}
    shown = printed.copy()
    shown.highlight_regex(_BLANKS, style=_blank)
    for theme, colors in THEMES.items():
        console = Console(record=True, width=COLUMNS, file=io.StringIO(), highlight=False)
        console.print(shown, no_wrap=True, overflow="ignore", crop=False)
        svg = console.export_svg(
            title=title,
            theme=colors,
            code_format=_TEMPLATE,
            font_aspect_ratio=_ASPECT_RATIO,
            unique_id=name,
        )
        svg = _END_OF_LINE.sub("", svg.replace(_WHITE_BORDER, _BORDER))
        # One element a line, so that a change of the output is a small change of the file.
        lines = svg.replace("</text><", "</text>\n<").splitlines()
        pictures[f"{name}-{theme}.svg"] = "".join(f"{line.rstrip()}\n" for line in lines)
    return pictures
