"""Which API server is used, and `export --delete` and `--delete-all`."""

import argparse
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from nri_numamem.apiserver.access import AccessError
from nri_numamem.cli.export import server
from nri_numamem.cli.export.server import (
    access_of,
    add_server_arguments,
    delete_configured,
)
from nri_numamem.cli.host_arguments import add_node_name_argument, node_name_of
from nri_numamem.cli.main import main
from nri_numamem.config.errors import UsageError
from tests.kubernetes_api import KubernetesApi, fails


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
    with pytest.raises(AccessError, match=r"no API server: this is not a pod, and .*/default does"):
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


OURS = {"metadata": {"labels": {"app.kubernetes.io/managed-by": "nri-numamem"}}}


@pytest.fixture(name="api")
def _api() -> Iterator[KubernetesApi]:
    with KubernetesApi() as api:
        api.objects = {"worker-1": OURS, "worker-2": OURS, "worker-3": {"metadata": {}}}
        yield api


@pytest.fixture
def to_api(api: KubernetesApi, tmp_path: Path) -> list[str]:
    return ["--kubeconfig", str(api.write_kubeconfig(tmp_path / "kubeconfig"))]


def test_the_object_of_this_host(
    api: KubernetesApi, to_api: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["export", "--delete", "--node-name", "worker-1", *to_api]
    assert main(arguments) == 0
    assert capsys.readouterr().out == "deleted noderesourcetopology worker-1\n"
    assert set(api.objects) == {"worker-2", "worker-3"}
    assert main(arguments) == 0
    assert capsys.readouterr().out == "noderesourcetopology worker-1: there is none\n"


def test_the_objects_of_all_hosts(api: KubernetesApi, to_api: list[str]) -> None:
    assert main(["export", "--delete-all", *to_api]) == 0
    assert set(api.objects) == {"worker-3"}


def test_the_list_of_what_was_deleted_may_be_large(api: KubernetesApi, to_api: list[str]) -> None:
    api.faults = [fails(200, {"items": [{}] * 200_000}), fails(200, "not Kubernetes")]
    assert main(["export", "--delete-all", *to_api]) == 0
    assert main(["export", "--delete-all", *to_api]) == 1


def test_without_the_crd_there_is_nothing_to_delete(api: KubernetesApi, to_api: list[str]) -> None:
    api.has_crd = False
    assert main(["export", "--delete-all", *to_api]) == 0


def test_failures(
    api: KubernetesApi, to_api: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    api.forbidden = {"DELETE"}
    assert main(["export", "--delete", "--node-name", "worker-1", *to_api]) == 1
    line = capsys.readouterr().err
    assert line.startswith('nri-numamem: cannot delete noderesourcetopology worker-1: User "x" can')
    assert line.endswith("of noderesourcetopologies, and get of nodes\n")
    api.stop()
    assert main(["export", "--delete-all", *to_api]) == 1
    line = capsys.readouterr().err
    assert line.startswith("nri-numamem: cannot delete all objects of nri-numamem: https://127")
    assert line.endswith("; check that the API server runs, and that its address is correct\n")


class TestConfigured:
    """What an uninstall deletes."""

    @pytest.fixture(autouse=True)
    def _unit(self, api: KubernetesApi, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(server, "OPTIONS_FILE", tmp_path / "export.env")
        monkeypatch.setenv("NODE_NAME", "worker-9")
        self.api = api
        self.options = tmp_path / "export.env"
        self.kubeconfig = api.write_kubeconfig(tmp_path / "other")

    def set_options(self, text: str) -> None:
        self.options.write_text(f"# text\n{text}\n")

    def test_no_exporter_is_configured(self) -> None:
        assert delete_configured(is_dry_run=False) == ""
        self.set_options("EXPORT_OPTIONS=--node-name worker-1")
        assert delete_configured(is_dry_run=False) == ""
        assert self.api.seen == []

    @pytest.mark.parametrize("quote", ["", "'", '"'])
    def test_the_options_of_the_unit(self, quote: str) -> None:
        more = "--log-level debug --node-name worker-1"
        self.set_options(f"EXPORT_OPTIONS={quote}--kubeconfig {self.kubeconfig} {more}{quote}")
        planned = "would delete noderesourcetopology worker-1 from the API server"
        assert delete_configured(is_dry_run=True) == planned
        assert self.api.seen == []
        done = "deleted noderesourcetopology worker-1 from the API server"
        assert delete_configured(is_dry_run=False) == done
        assert set(self.api.objects) == {"worker-2", "worker-3"}
        assert delete_configured(is_dry_run=False) == ""

    def test_the_default_kubeconfig(self, tmp_path: Path) -> None:
        self.api.write_kubeconfig(tmp_path / "default")
        self.set_options("NODE_NAME=worker-2")
        assert "worker-2" in delete_configured(is_dry_run=False)
        assert set(self.api.objects) == {"worker-1", "worker-3"}

    def test_options_that_are_wrong(self, tmp_path: Path) -> None:
        self.api.write_kubeconfig(tmp_path / "default")
        self.set_options("EXPORT_OPTIONS=--node-name")
        assert delete_configured(is_dry_run=False) == ""
        assert self.api.seen[0].path.endswith("/worker-9")

    def test_failures_name_the_command(self, tmp_path: Path) -> None:
        self.api.write_kubeconfig(tmp_path / "default")
        self.set_options("NODE_NAME=worker-1")
        self.api.forbidden = {"DELETE"}
        line = delete_configured(is_dry_run=False)
        start = "noderesourcetopology worker-1 stays in the API server (User "
        assert line.startswith(start)
        assert line.endswith("; run: kubectl delete noderesourcetopologies worker-1")
        self.set_options("NODE_NAME=Worker_1")
        line = delete_configured(is_dry_run=False)
        assert "'Worker_1' is not a valid Node name" in line
        assert line.endswith("; run: kubectl delete noderesourcetopologies NAME")
        self.set_options("NODE_NAME=worker-1")
        (tmp_path / "default").write_text("x")
        assert "not a kubeconfig" in delete_configured(is_dry_run=False)


def test_one_action_at_a_time(to_api: list[str]) -> None:
    with pytest.raises(SystemExit):
        main(["export", "--delete", "--delete-all", *to_api])
