"""Steps are described, executed, and undone when one fails."""

import os
from collections.abc import Sequence
from pathlib import Path

import pytest

from nri_numamem.cli.host_files import Host
from nri_numamem.cli.installation.steps import (
    Copy,
    Link,
    Move,
    Remove,
    Service,
    Step,
    Write,
    WriteProgram,
    apply,
    describe,
    perform,
    print_nothing,
    print_remaining,
)
from nri_numamem.config.errors import UsageError

Tree = dict[str, tuple[int, str]]


class Systemctl:
    """Takes note of calls; fails at the words in `failing`."""

    def __init__(self, failing: str = "") -> None:
        self.calls: list[str] = []
        self._failing = failing

    def __call__(self, arguments: Sequence[str]) -> None:
        self.calls.append(" ".join(arguments))
        if self._failing and self._failing in arguments:
            raise OSError(5, "no such unit")


def tree(root: Path) -> Tree:
    """Return every file, link and directory below a root, with mode and content."""
    found = {}
    for path in sorted(root.rglob("*")):
        mode = path.lstat().st_mode
        content = str(path.readlink()) if path.is_symlink() else ""
        if not content and path.is_file():
            content = path.read_text()
        found[str(path.relative_to(root))] = (mode, content)
    return found


@pytest.fixture
def root(tmp_path: Path) -> Path:
    for name, text in {"old": "old text", "tool": "#!", "conf": "c"}.items():
        (tmp_path / name).write_text(text)
    (tmp_path / "tool").chmod(0o750)
    (tmp_path / "link").symlink_to("/there")
    return tmp_path


ALL: tuple[Step, ...] = (
    Write("/new/folder/text", "hello"),
    Write("/old", "new text"),
    WriteProgram("/libexec/new/p", b"#!p"),
    Link("/l/10-x", "/prog"),
    Link("/link", "/elsewhere"),
    Move("/conf", "/moved/conf"),
    Remove("/tool"),
    Service(("start", "x"), ("stop", "x")),
)


def test_all_steps(root: Path) -> None:
    run = Systemctl()
    copy = Copy("/opt/10-p", root / "tool")
    apply([copy, *ALL], Host(root), run)
    found = tree(root)
    assert found["opt/10-p"] == (0o100755, "#!")
    assert found["libexec/new/p"] == (0o100755, "#!p")
    assert found["new/folder/text"] == (0o100644, "hello")
    assert found["old"] == (0o100644, "new text")
    assert found["l/10-x"][1] == "/prog"
    assert found["link"][1] == "/elsewhere"
    assert found["moved/conf"][1] == "c"
    assert {"tool", "conf"}.isdisjoint(found)
    assert run.calls == ["start x"]


@pytest.mark.parametrize("count", range(len(ALL) + 1))
def test_a_failing_step_leaves_nothing_half_done(root: Path, count: int) -> None:
    before = tree(root)
    run = Systemctl(failing="restart")
    steps = [Copy("/opt/10-p", root / "tool"), *ALL[:count], Service(("restart", "x"))]
    with pytest.raises(UsageError) as caught:
        apply(steps, Host(root), run)
    assert str(caught.value) == "systemctl restart x: no such unit; nothing was changed"
    assert tree(root) == before
    assert run.calls[-1] == ("daemon-reload" if "start x" in run.calls else "restart x")
    assert ("stop x" in run.calls) is ("start x" in run.calls)


def test_an_error_names_place_and_remedy(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(os, "fsync", refuse)
    before = tree(root)
    with pytest.raises(UsageError) as caught:
        apply([Write("/x/y", "")], Host(root), Systemctl())
    assert str(caught.value) == "/x/y: Permission denied; run as root; nothing was changed"
    assert tree(root) == before


def test_what_cannot_be_taken_back_is_named(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = Systemctl(failing="stop")
    steps: list[Step] = [Service(("start", "x"), ("stop", "x")), Remove("/none")]
    with pytest.raises(UsageError) as caught:
        apply(steps, Host(root), run)
    assert str(caught.value) == (
        "/none: No such file or directory; not undone: ran systemctl start x (no such unit)"
    )


def test_an_interrupt_takes_steps_back(root: Path) -> None:
    def interrupt(_arguments: Sequence[str]) -> None:
        raise KeyboardInterrupt

    before = tree(root)
    with pytest.raises(KeyboardInterrupt):
        apply([Write("/old", "new"), Service(("start", "x"))], Host(root), interrupt)
    assert tree(root) == before


def test_a_program_is_never_executable_under_another_name(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The runtime may start at any time, and starts every executable of its directory."""
    seen: list[dict[str, int]] = []
    replace, chmod = Path.replace, Path.chmod

    def look() -> None:
        folder = root / "plugins"
        seen.append({path.name: path.lstat().st_mode & 0o111 for path in folder.iterdir()})

    def replace_and_look(path: Path, target: Path) -> Path:
        look()
        return replace(path, target)

    def chmod_and_look(path: Path, mode: int) -> None:
        look()
        chmod(path, mode)

    monkeypatch.setattr(Path, "replace", replace_and_look)
    monkeypatch.setattr(Path, "chmod", chmod_and_look)
    apply([Copy("/plugins/10-p", root / "tool")], Host(root), Systemctl())
    assert seen == [{".10-p.new": 0}, {"10-p": 0}]


def test_a_link_that_cannot_be_made_is_restored(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make, calls = Path.symlink_to, []

    def refuse_once(path: Path, target: str) -> None:
        calls.append(path)
        if len(calls) == 1:
            raise OSError(30, "Read-only file system")
        make(path, target)

    monkeypatch.setattr(Path, "symlink_to", refuse_once)
    with pytest.raises(UsageError, match=r"its file system is read-only; nothing was changed$"):
        apply([Link("/link", "/elsewhere")], Host(root), Systemctl())
    assert str((root / "link").readlink()) == "/there"


def test_links_that_cannot_be_followed_are_found_before_the_first_step(root: Path) -> None:
    (root / "a").symlink_to("/b")
    (root / "b").symlink_to("/a")
    with pytest.raises(UsageError, match=r"^/a: more than 40 symbolic links; correct them$"):
        apply([Remove("/old"), Write("/a/text", "")], Host(root), Systemctl())
    assert (root / "old").exists()


def test_a_failed_move_leaves_no_directory(root: Path) -> None:
    before = tree(root)
    with pytest.raises(UsageError, match=r"nothing was changed$"):
        apply([Move("/none", "/new/conf")], Host(root), Systemctl())
    assert tree(root) == before


def test_a_fifo_is_not_read(root: Path) -> None:
    os.mkfifo(root / "fifo")
    with pytest.raises(UsageError, match=r"^/fifo: it is not a regular file; nothing was changed$"):
        apply([Write("/fifo", "")], Host(root), Systemctl())


LINES: list[tuple[Step, str, str]] = [
    (Write("/a", "text"), "wrote /a", "would write /a"),
    (WriteProgram("/a", b""), "wrote /a", "would write /a"),
    (Copy("/a", Path("/b")), "copied /b to /a", "would copy /b to /a"),
    (Link("/a", "/b"), "linked /a -> /b", "would link /a -> /b"),
    (Move("/a", "/b"), "moved /a to /b", "would move /a to /b"),
    (Remove("/a"), "removed /a", "would remove /a"),
    (Service(("stop", "x")), "ran systemctl stop x", "would run systemctl stop x"),
]


@pytest.mark.parametrize(("step", "done", "planned"), LINES)
def test_lines(step: Step, done: str, planned: str) -> None:
    assert describe(step, is_done=True) == done
    assert describe(step, is_done=False) == planned


@pytest.mark.parametrize("is_dry_run", [True, False])
def test_printed_steps(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], *, is_dry_run: bool
) -> None:
    perform([Write("/a", "x"), Write("/b", "x")], Host(tmp_path), is_dry_run=is_dry_run)
    print_nothing(is_dry_run=is_dry_run)
    assert (tmp_path / "a").exists() is not is_dry_run
    assert capsys.readouterr().out == (
        "would write /a\nwould write /b\nnothing to change\n"
        if is_dry_run
        else "wrote /a\nwrote /b\nnothing changed\n"
    )


def test_remaining(capsys: pytest.CaptureFixture[str]) -> None:
    print_remaining([])
    print_remaining(["a", "b"])
    assert capsys.readouterr().out == "\nremaining:\n  a\n  b\n"
