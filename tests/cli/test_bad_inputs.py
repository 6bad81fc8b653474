"""A hundred wrong inputs: each is one line with the place and the remedy, and no traceback."""

from pathlib import Path

import pytest

from nri_numamem.cli.main import main
from tests.cli.bad_inputs import ALL, BadInput

MACHINE = "machine: {nodes: [{id: 0, memory: 8Gi, hugepages: {2Mi: 64}}, {id: 1, memory: 8Gi}]}\n"


def test_there_are_a_hundred() -> None:
    assert len({(case.arguments, case.text) for case in ALL}) >= 100
    assert len({case.name for case in ALL}) == len(ALL)


@pytest.mark.parametrize("case", ALL, ids=lambda case: case.name)
def test_one_line_with_the_place_and_the_remedy(
    case: BadInput,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.delenv("NRI_PLUGIN_SOCKET", raising=False)
    file, machine = tmp_path / "input.yaml", tmp_path / "machine.yaml"
    file.write_bytes(case.text.encode(errors="surrogateescape"))
    machine.write_text(MACHINE)
    words = case.arguments.replace("FILE", str(file)).replace("MACHINE", str(machine)).split(" ")
    try:
        status = main(words)
    except SystemExit as ended:  # argparse
        status = int(ended.code or 0)
    shown = capsys.readouterr()
    error = shown.err.replace(str(file), "FILE")
    assert status == case.status
    assert shown.out == ""
    lines = error.splitlines()
    is_usage = error.startswith("usage: ")
    last = lines[-1]
    assert is_usage or len(lines) == 1
    assert last.startswith("nri-numamem")
    assert [word for word in case.words if word not in last] == []
    assert "Traceback" not in error
