"""Check objects with the Go types of the scheduler plugin, and against the CRD's schema."""

import json
import re
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import yaml

from tests.conformance.go_runtime import OUT, go_program, run_in

_SOURCE = Path(__file__).with_name("scheduler")
_FOLDER = OUT / "scheduler"
_API = "github.com/k8stopologyawareschedwg/noderesourcetopology-api"

Case: TypeAlias = tuple[object, Sequence[tuple[str, str]] | None]
"""An object, and the pods of its fingerprint; None if it has none."""

_TYPES = {"object": dict, "array": list, "string": str, "integer": int}


def check(cases: Sequence[Case]) -> list[str]:
    """Return "ok" or what is wrong with each object."""
    lines = [json.dumps({"document": document, "pods": pods}) for document, pods in cases]
    return run_in(_FOLDER, str(_build()), text="\n".join(lines)).splitlines()


def crd() -> Any:  # noqa: ANN401 - JSON
    """Return the CRD's manifest."""
    _build()
    module = run_in(_FOLDER, _go(), "list", "-mod=readonly", "-m", "-f", "{{.Dir}}", _API).strip()
    return yaml.safe_load((Path(module) / "manifests/crd.yaml").read_text())


def schema() -> Any:  # noqa: ANN401 - JSON schema
    """Return the schema of v1alpha2 in the CRD."""
    (version,) = [entry for entry in crd()["spec"]["versions"] if entry["name"] == "v1alpha2"]
    return version["schema"]["openAPIV3Schema"]


def violations(schema: Any, value: Any, path: str = "") -> Iterator[str]:  # noqa: ANN401 - JSON
    """Yield what differs from a structural schema; what it does not name is not allowed.

    Of `metadata` the CRD has no schema: the API server checks it.
    """
    if path == ".metadata":
        return
    if schema.get("x-kubernetes-int-or-string"):
        if not isinstance(value, int | str) or not re.search(schema["pattern"], str(value)):
            yield f"{path}: {value!r}"
    elif not isinstance(value, _TYPES[schema["type"]]):
        yield f"{path}: {value!r} is no {schema['type']}"
    elif isinstance(value, dict):
        properties = schema.get("properties", {})
        yield from (
            f"{path}.{name} is missing" for name in schema.get("required", ()) if name not in value
        )
        for name, each in value.items():
            if name in properties:
                yield from violations(properties[name], each, f"{path}.{name}")
            else:
                yield f"{path}.{name} is unknown"
    elif isinstance(value, list):
        for index, each in enumerate(value):
            yield from violations(schema["items"], each, f"{path}[{index}]")


def _build() -> Path:
    program = _FOLDER / "check"
    sources = sorted(_SOURCE.iterdir())
    newest = max(source.stat().st_mtime for source in sources)
    if program.exists() and program.stat().st_mtime > newest:
        return program
    shutil.rmtree(_FOLDER, ignore_errors=True)
    _FOLDER.mkdir(parents=True)
    for source in sources:
        shutil.copyfile(source, _FOLDER / source.name)
    options = ("-mod=readonly", "-buildvcs=false", "-trimpath")
    run_in(_FOLDER, _go(), "build", *options, "-o", program.name, ".")
    return program


def _go() -> str:
    go = go_program()
    if go is None:
        raise RuntimeError("Go is missing; run tests/conformance/install-tools")
    return go
