"""Which API server is used."""

import argparse
import os
import sys
from pathlib import Path

import pytest

from nri_numamem.apiserver.access import AccessError
from nri_numamem.cli.export import server
from nri_numamem.cli.export.server import (
    access_of,
    add_node_name_argument,
    add_server_arguments,
    node_name_of,
)
from nri_numamem.config.errors import UsageError
from tests.kubernetes_api import KubernetesApi


@pytest.fixture(autouse=True)
def _no_pod(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    monkeypatch.setattr(server, "DEFAULT_KUBECONFIG", tmp_path / "default")


def options(*arguments: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    add_server_arguments(parser)
    return parser.parse_args(arguments)


def account(directory: Path) -> list[str]:
    KubernetesApi().write_service_account(directory / "account")
    return ["--service-account", str(directory / "account")]


def kubeconfig(path: Path, url: str) -> Path:
    return KubernetesApi().write_kubeconfig(path, server=url)


def test_a_pod(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "10.0.0.1")
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", "443")
    kubeconfig(tmp_path / "default", "https://default")
    read = access_of(options(*account(tmp_path)))
    assert str(read().server) == "https://10.0.0.1:443"
    KubernetesApi().write_service_account(tmp_path / "account", "next")
    assert read().token == "next"  # noqa: S105 - of a test


def test_a_kubeconfig_comes_first(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "10.0.0.1")
    path = kubeconfig(tmp_path / "k", "https://named")
    assert access_of(options("--kubeconfig", str(path)))().server.host == "named"


def test_the_default_kubeconfig(tmp_path: Path) -> None:
    with pytest.raises(AccessError, match=r"no API server: this is no pod, and .*/default does"):
        access_of(options())
    kubeconfig(tmp_path / "default", "https://default")
    assert access_of(options())().server.host == "default"


def test_credentials_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(AccessError, match="none: No such file"):
        access_of(options("--kubeconfig", str(tmp_path / "none")))


def test_without_tls_only_http(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(sys.modules, "ssl", None)
    path = kubeconfig(tmp_path / "k", "http://127.0.0.1:8001")
    assert access_of(options("--kubeconfig", str(path)))().server.port == 8001
    path = kubeconfig(tmp_path / "k", "https://a")
    with pytest.raises(AccessError, match="built without TLS"):
        access_of(options("--kubeconfig", str(path)))


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
