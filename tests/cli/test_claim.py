"""``nri-numamem claim``; tests/cli/bad_inputs.py has what it refuses."""

import json
from typing import Any

import pytest
import yaml

from nri_numamem.cli.main import main
from nri_numamem.export.claimtemplate import IMAGE, Needs, claim_template, pod_with_claim

GI = 1 << 30


def claim(words: str, capsys: pytest.CaptureFixture[str]) -> tuple[str, str]:
    assert main(["claim", *words.split()]) == 0
    shown = capsys.readouterr()
    return shown.out, shown.err


def objects(needs: Needs, name: str = "app") -> list[Any]:
    return [claim_template(name, needs), pod_with_claim(name, needs)]


@pytest.mark.parametrize(
    ("words", "name", "needs"),
    [
        ("40Gi", "app", Needs({"memory": 40 * GI})),
        (
            "40Gi --cpus 8 --hugepages-1Gi 4Gi --hugepages-2Mi 2Gi --name upf",
            "upf",
            Needs({"memory": 40 * GI, "hugepages-1Gi": 4 * GI, "hugepages-2Mi": 2 * GI}, 8),
        ),
        (
            "64Gi --with gpu.nvidia.com --with dra.net",
            "app",
            Needs({"memory": 64 * GI}, 0, ("gpu.nvidia.com", "dra.net")),
        ),
        ("800Gi --nodes 8", "app", Needs({"memory": 800 * GI}, nodes=8)),
        ("100Gi --nodes 2 --cpus 16", "app", Needs({"memory": 100 * GI}, 16, nodes=2)),
    ],
)
def test_both_formats_have_template_and_pod(
    words: str, name: str, needs: Needs, capsys: pytest.CaptureFixture[str]
) -> None:
    text, error = claim(words, capsys)
    assert error == ""
    assert list(yaml.safe_load_all(text)) == objects(needs, name)
    text, _ = claim(f"{words} --output json", capsys)
    assert json.loads(text) == {"apiVersion": "v1", "kind": "List", "items": objects(needs, name)}


def test_comments_say_what_to_replace_and_where_the_claim_is(
    capsys: pytest.CaptureFixture[str],
) -> None:
    text, _ = claim("1Gi", capsys)
    comments = [line for line in text.splitlines() if line.startswith("#")]
    assert comments[0] == "# The scheduler allocates everything on one NUMA node."
    assert comments[1].startswith(f"# Replace {IMAGE}. ")
    assert max(map(len, comments)) <= 100
    text, _ = claim("100Gi --nodes 2", capsys)
    assert text.startswith("# The scheduler allocates 2 empty NUMA nodes, on one socket if it has ")
    text, _ = claim("100Gi --nodes 2 --cpus 2", capsys)
    assert "# All memory is near or all is any: " in text
    assert max(map(len, text.splitlines())) <= 100


def test_amounts_that_are_rounded_up_are_named(capsys: pytest.CaptureFixture[str]) -> None:
    text, error = claim("4097 --hugepages-2Mi 3Mi", capsys)
    assert error.splitlines() == [
        "nri-numamem: memory: 4097 is rounded up to 8Ki, whole pages",
        "nri-numamem: hugepages-2Mi: 3Mi is rounded up to 4Mi, whole pages",
    ]
    assert list(yaml.safe_load_all(text)) == objects(
        Needs({"memory": 8192, "hugepages-2Mi": 4 << 20})
    )
    _, error = claim("12Ki --nodes 2", capsys)
    assert (
        error
        == "nri-numamem: memory: 12Ki is rounded up to 16Ki, whole pages on each of 2 NUMA nodes\n"
    )
