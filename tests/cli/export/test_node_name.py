"""The name of the Node; tests/cli/test_export.py shows it in the object."""

import argparse
import os

import pytest

from nri_numamem.cli.export.node_name import add_node_name_argument, node_name_of
from nri_numamem.config.errors import UsageError


def given(*arguments: str) -> str | None:
    parser = argparse.ArgumentParser()
    add_node_name_argument(parser)
    name: str | None = parser.parse_args(arguments).node_name
    return name


def test_the_option_comes_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NODE_NAME", "b")
    assert node_name_of(given("--node-name", "a.x-1")) == "a.x-1"
    assert node_name_of(given()) == "b"
    monkeypatch.delenv("NODE_NAME")
    assert node_name_of(given()) == os.uname().nodename.lower()


@pytest.mark.parametrize("name", ["-a", "a-", "A", "a/b", "a?b", "a" * 254, "\u00e4"])
def test_wrong_names(name: str) -> None:
    with pytest.raises(UsageError, match="is not a valid Node name"):
        node_name_of(name)
