"""The options of the agent; tests/cli/export/test_claims.py runs it."""

import pytest

from nri_numamem.cli.main import main, new_parser


def options_of(command: str) -> set[str]:
    """Return the names and defaults of a command's options."""
    args = vars(new_parser([command]).parse([command]))
    return {f"{name}={value}" for name, value in args.items() if name not in ("command", "parser")}


def test_without_claims_it_is_the_exporter() -> None:
    assert options_of("agent") == options_of("export")
    assert not vars(new_parser(["agent"]).parse(["agent"]))["claims"]


def test_only_the_agent_serves_claims(capsys: pytest.CaptureFixture[str]) -> None:
    assert vars(new_parser(["agent"]).parse(["agent", "--claims"]))["claims"]
    with pytest.raises(SystemExit) as found:
        main(["export", "--claims"])
    assert found.value.code == 2
    assert "--claims" in capsys.readouterr().err


def test_claims_need_the_api_server(capsys: pytest.CaptureFixture[str]) -> None:
    options = ["--claims", "--no-write", "--podresources", "unix:///run/x.sock"]
    assert main(["agent", *options]) == 2
    text = "nri-numamem: --claims needs the API server; remove --no-write\n"
    assert capsys.readouterr().err == text


def test_counting_for_the_node_needs_claims(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["agent", "--node-allocatable"]) == 2
    text = "nri-numamem: --node-allocatable needs --claims; add that option\n"
    assert capsys.readouterr().err == text
