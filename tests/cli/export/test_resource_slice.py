"""``export --dry-run --resource-slice``: what resource claims could get on a host."""

import json
from typing import Any

import pytest

from nri_numamem.cli.main import main
from tests.cli.export.export_host import ExportHost


def run(host: ExportHost, *options: str) -> int:
    return main(["export", *options, "--node-name", "worker-3", *host.arguments()])


def test_classes_and_slice(host: ExportHost, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(host, "--dry-run", "--resource-slice", "--output=json") == 0
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    *classes, shown = found["items"]
    assert {each["metadata"]["name"] for each in classes} >= {"dra.memory", "dra.memory-multi-numa"}
    assert shown["spec"]["nodeName"] == "worker-3"
    memory = [each for each in shown["spec"]["devices"] if each["name"].startswith("memory-")]
    assert len(memory) == 4
    taken, *others = (int(each["capacity"]["size"]["value"]) for each in memory)
    assert taken == min(others) - 10 * (1 << 30)


def test_it_is_only_printed(host: ExportHost, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(host, "--resource-slice") == 2
    assert capsys.readouterr().err == (
        "nri-numamem: --resource-slice needs --dry-run; to write it: nri-numamem agent --claims\n"
    )
