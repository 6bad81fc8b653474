"""Kubernetes manifests as helm and kustomize render them.

install-kubernetes-tools builds the programs; tests that need them are skipped where it was not run.
"""

import json
import subprocess
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[2]
CHART = ROOT / "packaging/helm/nri-numamem"
KUSTOMIZE = ROOT / "packaging/kustomize"
TOOLS = ROOT / "build/kubernetes-tools"
NAME = "nri-numamem"

needs_tools = pytest.mark.skipif(
    not (TOOLS / "swagger.json").exists(),
    reason=f"{TOOLS} is missing; run tests/packaging/install-kubernetes-tools",
)

Manifest = Mapping[str, Any]


def run(program: str, *arguments: str | Path, text: str = "") -> subprocess.CompletedProcess[str]:
    """Run one of the programs; `text` is its input."""
    command = [TOOLS / program, *arguments]
    return subprocess.run(command, input=text, capture_output=True, text=True, check=False)


def output_of(program: str, *arguments: str | Path, text: str = "") -> str:
    """Return what a program prints; it must succeed."""
    done = run(program, *arguments, text=text)
    assert done.returncode == 0, done.stderr
    return done.stdout


def helm(*arguments: str | Path, values: Mapping[str, object] | None = None) -> list[str]:
    """Return the arguments of helm that render the chart; `values` are like `image.tag`: "1"."""
    options = [f"--set-json={name}={json.dumps(value)}" for name, value in (values or {}).items()]
    # Without a cluster helm takes an old version.
    place = ["--namespace=kube-system", "--kube-version=1.34.0"]
    return ["template", NAME, str(CHART), *place, *options, *map(str, arguments)]


def render_chart(values: Mapping[str, object] | None = None) -> str:
    """Return the manifests of the chart."""
    return _rendered("helm", *helm(values=values))


def render_overlay(name: str) -> str:
    """Return the manifests of an overlay."""
    return _rendered("kustomize", "build", str(KUSTOMIZE / "overlays" / name))


@cache
def _rendered(program: str, *arguments: str) -> str:
    return output_of(program, *arguments)


def validated(text: str) -> dict[tuple[str, str], Manifest]:
    """Return kind and name -> manifest.

    All must be valid by Kubernetes' OpenAPI document and types; see kubernetes_tools.
    """
    lines = _validated(text)
    documents: Sequence[Manifest] = [item for item in yaml.safe_load_all(text) if item]
    found = {(item["kind"], item["metadata"]["name"]): item for item in documents}
    assert [line.split(" ", 1) for line in lines.splitlines()] == [list(key) for key in found]
    return found


@cache
def _validated(text: str) -> str:
    return output_of("kubernetes_tools", "validate", TOOLS / "swagger.json", text=text)


def only(found: Mapping[tuple[str, str], Manifest], kind: str) -> Manifest:
    """Return the only manifest of a kind."""
    (manifest,) = (manifest for key, manifest in found.items() if key[0] == kind)
    return manifest
