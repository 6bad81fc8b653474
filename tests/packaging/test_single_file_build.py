"""The parts of packaging/single_file, without a build root."""

import marshal
import re
import subprocess
import sys
import zipfile
from pathlib import Path
from types import CodeType

import claim_hook
import pytest
from single_file import artefact, commands, debian, freeze, interpreter, licenses, openssl

SOURCE = '''\
"""Of the module."""


def half(number: int) -> int:
    """Of a function."""
    assert number % 2 == 0, "odd"
    return number // 2


class Kept:
    """Of a class."""

    def empty(self) -> None:
        """Of a method."""
'''


def run_frozen(name: str, source: str) -> dict[str, object]:
    """Return the names of a frozen module."""
    code = marshal.loads(freeze.compiled(name, source))  # noqa: S302 - made here
    assert isinstance(code, CodeType)
    names: dict[str, object] = {"__name__": name}
    exec(code, names)  # noqa: S102 - the source above
    return names


def test_docstrings_are_stripped_but_those_of_classes() -> None:
    names = run_frozen("example", SOURCE)
    assert "__doc__" not in names
    half, kept = names["half"], names["Kept"]
    assert half.__doc__ is None
    assert kept.__doc__ == "Of a class."
    assert kept.empty.__doc__ is None  # type: ignore[attr-defined]


def test_assertions_and_line_numbers_stay() -> None:
    half = run_frozen("example", SOURCE)["half"]
    with pytest.raises(AssertionError, match="odd") as caught:
        half(3)  # type: ignore[operator]
    entry = caught.traceback[-1]
    assert (entry.frame.code.raw.co_filename, entry.lineno + 1) == ("<frozen example>", 6)


def write(folder: Path, *names: str) -> None:
    for name in names:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"'{name}'\nvalue = 1\n")


def test_unused_modules_are_left_out_and_packages_added(tmp_path: Path) -> None:
    write(tmp_path, "a/__init__.py", "a/b.py", "a/unicode1-0.py", "test/c.py", "xml/d.py")
    found = freeze.freeze([tmp_path])
    assert [(module.name, module.is_package) for module in found] == [
        ("a", True),
        ("a.b", False),
        ("a.unicode1-0", False),
        ("google", True),
        ("google._upb", True),
    ]


def test_a_later_folder_replaces_modules(tmp_path: Path) -> None:
    for folder in ("first", "second"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "a.py").write_text(f"value = {folder!r}")
    (module, *_) = freeze.freeze([tmp_path / "first", tmp_path / "second"])
    assert b"second" in module.code


def test_a_line_to_replace_that_is_gone_is_an_error() -> None:
    lines = "\n".join(freeze.REPLACED_LINES["google"]) + "\nrest = 1\n"
    assert freeze.replaced("google", lines) == "\n\nrest = 1\n"
    with pytest.raises(ValueError, match=r"module google has no line '__path__"):
        freeze.replaced("google", lines.replace("__path__", "path"))


def test_table_and_code_agree(tmp_path: Path) -> None:
    modules = [
        freeze.Module("a", b"12345", is_package=True),
        freeze.Module("b.c", b"x" * 16, is_package=False),
    ]
    freeze.write(modules, tmp_path)
    assert (tmp_path / "frozen.bin").read_bytes() == b"12345".ljust(16, b"\0") + b"x" * 16
    table = (tmp_path / "frozen.c").read_text()
    assert '{"a", frozen_code + 0, 5, 1},' in table
    assert '{"b.c", frozen_code + 16, 16, 0},' in table
    assert '.incbin "frozen.bin"' in (tmp_path / "frozen.S").read_text()


def test_the_same_sources_give_the_same_bytes(tmp_path: Path) -> None:
    write(tmp_path / "modules", "a/__init__.py", "a/b.py")
    (tmp_path / "modules/c.py").write_text(
        "kinds = {'x', 'y', 'z'}\ncheck = lambda k: k in {'p', 'q'}\n"
    )
    results = []
    for seed in "12":
        out = tmp_path / seed
        out.mkdir()
        command = [sys.executable, "-I", str(freeze.__file__), str(out), str(tmp_path / "modules")]
        subprocess.run(command, check=True, env={"PYTHONHASHSEED": seed}, capture_output=True)
        results.append([(out / name).read_bytes() for name in ("frozen.bin", "frozen.c")])
    assert results[0] == results[1]


def test_a_failed_step_ends_with_its_output() -> None:
    with pytest.raises(commands.BuildError, match=r"^sh -c .* ended with status 3:\nlast words$"):
        commands.run("sh", "-c", "echo last words; exit 3")
    with pytest.raises(commands.BuildError, match="no-such-program is not installed"):
        commands.run("no-such-program")


def test_the_mirrors_are_those_of_apt(monkeypatch: pytest.MonkeyPatch) -> None:
    lines = "Debian|x|file:/main/\nDebian|x|file:/main/\nOther|x|file:/other\n"
    monkeypatch.setattr(debian, "run", lambda *_: f"{lines}Debian-Security|x|file:/security/\n")
    assert debian.mirrors() == ("file:/main", "file:/security")
    monkeypatch.setattr(debian, "run", lambda *_: lines)
    with pytest.raises(
        commands.BuildError, match="no lists of Debian-Security: run 'apt-get update'"
    ):
        debian.mirrors()


def test_a_package_without_a_licence_is_an_error(tmp_path: Path) -> None:
    wheel = tmp_path / "some_name-1.0-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr("some_name-1.0.dist-info/METADATA", "Name: some_name")
        archive.writestr("some_name/_vendor/x-1.dist-info/LICENSE", "of something else")
    with pytest.raises(ValueError, match=r"some_name-1\.0-py3-none-any\.whl has no licence"):
        list(licenses._of_wheel(wheel))
    with zipfile.ZipFile(wheel, "a") as archive:
        archive.writestr("some_name-1.0.dist-info/licenses/LICENSE.Apache-2.0", "the text")
        archive.writestr("some_name-1.0.dist-info/licenses/LICENSE.GPL-2.0-or-later", "not this")
    assert list(licenses._of_wheel(wheel)) == [("some_name-1.0: LICENSE.Apache-2.0", "the text")]


def test_a_source_file_without_a_comment_has_no_licence(tmp_path: Path) -> None:
    file = tmp_path / "x.c"
    file.write_text("// Some\n// licence\n\nint x;\n")
    assert licenses._comment(file) == "// Some\n// licence\n"
    file.write_text("int x; /* late */")
    with pytest.raises(ValueError, match="begins with no comment"):
        licenses._comment(file)


def test_no_recipe_names_a_host() -> None:
    for file in sorted(interpreter.HERE.rglob("*")):
        if file.is_file() and "__pycache__" not in file.parts:
            assert re.search("https?:", file.read_text()) is None, file


def interpreters() -> list[interpreter.Interpreter]:
    cache = interpreter.cache_root()
    return [
        interpreter.Interpreter(cache, folder.name)
        for folder in sorted(cache.glob("interpreter-*"))
        if interpreter.Interpreter(cache, folder.name).is_built
    ]


def test_what_the_plugin_imports_gets_no_openssl() -> None:
    """In those modules of CPython and of the libraries that import it at the top."""
    source = "try:\n    import ssl\nexcept ImportError:\n    ssl = None\n"
    changed = freeze.replaced("asyncio.sslproto", source)
    assert changed == source.replace("import ssl", "import absent_library as ssl")
    assert freeze.replaced("some.other", source) == source


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_two_links_give_the_same_bytes(tmp_path: Path) -> None:
    found = interpreters()
    if not found:
        pytest.skip("no interpreter in the cache: make dist")
    with interpreter.locked(found[0].cache):
        tls = openssl.of(found[0].cache)
        if not tls.is_built:
            pytest.skip("no OpenSSL in the cache: make dist")
        hook = claim_hook.build(tmp_path)
        for name in ("first", "second"):
            artefact.build(found[0], tls, hook, tmp_path / name)
    assert (tmp_path / "first").read_bytes() == (tmp_path / "second").read_bytes()
