"""The options of the agent; tests/cli/export/test_claims.py runs it."""

import pytest

from nri_numamem.cli.main import main, new_parser


def options_of(command: str) -> set[str]:
    """Return the names and defaults of a command's options."""
    args = vars(new_parser([command]).parse([command]))
    return {f"{name}={value}" for name, value in args.items() if name not in ("command", "parser")}


def test_without_options_it_is_the_exporter() -> None:
    assert options_of("agent") - options_of("export") == {
        "rebalance=none",
        "rebalance_namespaces=frozenset()",
        "max_evictions_per_hour=4",
        "cooldown=60",
    }
    assert options_of("export") < options_of("agent")
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


@pytest.mark.parametrize(
    ("options", "text"),
    [
        (
            ("--rebalance", "consented"),
            "--rebalance needs --rebalance-namespaces; name the namespaces",
        ),
        (
            (
                *("--rebalance", "consented", "--rebalance-namespaces", "ml", "--no-write"),
                *("--podresources", "unix:///run/x.sock"),
            ),
            "--rebalance needs the API server; remove --no-write",
        ),
    ],
)
def test_rebalancing_needs_more(
    capsys: pytest.CaptureFixture[str], options: tuple[str, ...], text: str
) -> None:
    assert main(["agent", *options]) == 2
    assert capsys.readouterr().err == f"nri-numamem: {text}\n"


def test_namespaces_are_a_list() -> None:
    words = ["agent", "--rebalance-namespaces", "ml,shop-2"]
    assert new_parser(["agent"]).parse(words).rebalance_namespaces == {"ml", "shop-2"}


@pytest.mark.parametrize(
    ("option", "value", "text"),
    [
        ("--rebalance-namespaces", "", "'' is not the name of a namespace"),
        ("--rebalance-namespaces", "ml,", "'' is not the name of a namespace"),
        ("--rebalance-namespaces", "ml,Shop", "'Shop' is not the name of a namespace"),
        ("--rebalance-namespaces", "*", "'*' is not the name of a namespace"),
        ("--max-evictions-per-hour", "0", "'0' is not a number from 1 to 1000"),
        ("--cooldown", "10081", "'10081' is not a number from 1 to 10080"),
    ],
)
def test_values_have_limits(
    capsys: pytest.CaptureFixture[str], option: str, value: str, text: str
) -> None:
    with pytest.raises(SystemExit) as found:
        main(["agent", option, value])
    assert found.value.code == 2
    assert text in capsys.readouterr().err
