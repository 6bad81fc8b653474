"""SBOMs: valid by the schema of CycloneDX, reproducible, and of the file that they are beside."""

import json
import zipfile
from pathlib import Path
from typing import Any

import pytest
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator
from release import sbom
from release.errors import ReleaseError

from tests.packaging.single_file_program import PROGRAM, needs_program, output_of

DATE_S = 1767225600


def assert_valid(text: str) -> None:
    assert JsonStrictValidator(SchemaVersion.V1_6).validate_str(text) is None


def wheel_of(folder: Path, name: str, *lines: str) -> Path:
    wheel = folder / f"{name}-1.0+a-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        text = "\n".join([f"Name: {name}", "Version: 1.0+a", *lines, "", "Version: 2"])
        archive.writestr(f"{name}-1.0+a.dist-info/METADATA", text)
        archive.writestr("other/_vendor/x.dist-info/METADATA", "Name: x")
    return wheel


@pytest.fixture
def program(tmp_path: Path) -> Path:
    path = tmp_path / "program"
    path.write_bytes(b"\x7fELF")
    return path


def document_of(program: Path) -> dict[str, Any]:
    wheel = wheel_of(program.parent, "Some_Library", "License-Expression: MIT OR Apache-2.0")
    return sbom.document(sbom.own(program, "0.1.0"), [sbom.of_wheel(wheel)], DATE_S)


def test_a_document_is_valid_and_the_same_each_time(program: Path) -> None:
    text = sbom.write(program, document_of(program)).read_text()
    assert_valid(text)
    assert sbom.write(program, document_of(program)).read_text() == text
    assert "//" not in text
    found = json.loads(text)
    assert found["metadata"]["timestamp"] == "2026-01-01T00:00:00+00:00"
    assert found["metadata"]["component"]["hashes"][0]["content"] == sbom.sha256_of(program)
    other = program.with_name("other")
    other.touch()
    assert document_of(other)["serialNumber"] != found["serialNumber"]


def test_a_library_has_version_licence_hash_and_package_url(tmp_path: Path) -> None:
    wheel = wheel_of(tmp_path, "Some_Library", "License-Expression: MIT OR Apache-2.0")
    purl = "pkg:pypi/some-library@1.0%2Ba?file_name=Some_Library-1.0%2Ba-py3-none-any.whl"
    assert sbom.of_wheel(wheel) == {
        "type": "library",
        "bom-ref": purl,
        "name": "some-library",
        "version": "1.0+a",
        "hashes": [{"alg": "SHA-256", "content": sbom.sha256_of(wheel)}],
        "licenses": [{"expression": "MIT OR Apache-2.0"}],
        "purl": purl,
    }


def test_a_licence_comes_from_the_metadata_or_from_the_list(tmp_path: Path) -> None:
    listed = sbom.of_wheel(wheel_of(tmp_path, "PyYAML", "License: MIT"))
    assert listed["licenses"] == [{"expression": "MIT"}]
    with pytest.raises(ReleaseError, match=r"other-1\.0\+a-py3-none-any\.whl: .* no licence; add"):
        sbom.of_wheel(wheel_of(tmp_path, "other"))


def test_a_file_is_part_of_another_with_its_contents(program: Path) -> None:
    sbom.write(program, document_of(program))
    package = program.with_name("package")
    package.write_bytes(b"!<arch>")
    whole = sbom.document(sbom.own(package, "0.1.0", "file"), [sbom.as_component(program)], DATE_S)
    assert_valid(json.dumps(whole))
    (inner,) = whole["components"]
    (library,) = inner["components"]
    assert whole["dependencies"] == [
        {"ref": whole["metadata"]["component"]["bom-ref"], "dependsOn": [inner["bom-ref"]]},
        {"ref": inner["bom-ref"], "dependsOn": [library["bom-ref"]]},
        {"ref": library["bom-ref"], "dependsOn": []},
    ]


def test_a_document_of_another_file_is_refused(program: Path) -> None:
    with pytest.raises(ReleaseError, match=r"program\.cdx\.json: .*; run: make dist"):
        sbom.as_component(program)
    sbom.write(program, document_of(program))
    program.write_bytes(b"changed")
    with pytest.raises(ReleaseError, match=r"is not of the present program; run: make dist"):
        sbom.as_component(program)
    sbom.path_of(program).write_text("{}")
    with pytest.raises(ReleaseError, match="run: make dist"):
        sbom.as_component(program)


@needs_program
@pytest.mark.skipif(not sbom.path_of(PROGRAM).exists(), reason="built without an SBOM")
def test_the_single_file_has_the_components_whose_licences_it_prints() -> None:
    assert_valid(sbom.path_of(PROGRAM).read_text())
    found = sbom.as_component(PROGRAM)["components"]
    printed = output_of([PROGRAM, "--licenses"]).replace("_", "-").lower()
    titles = printed.splitlines()
    for part in found:
        name, version = part["name"].lower(), part["version"]
        assert any(
            title == name or title.startswith((f"{name}:", f"{name}-{version}:"))
            for title in titles
        )
