"""`export --delete` and `--delete-all`."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from nri_numamem.cli.main import main
from tests.kubernetes_api import KubernetesApi

OURS = {"metadata": {"labels": {"app.kubernetes.io/managed-by": "nri-numamem"}}}


@pytest.fixture(name="api")
def _api() -> Iterator[KubernetesApi]:
    with KubernetesApi() as api:
        api.objects = {"worker-1": OURS, "worker-2": OURS, "worker-3": {"metadata": {}}}
        yield api


@pytest.fixture(name="kubeconfig")
def _kubeconfig(api: KubernetesApi, tmp_path: Path) -> list[str]:
    return ["--kubeconfig", str(api.write_kubeconfig(tmp_path / "kubeconfig"))]


def test_the_object_of_this_host(
    api: KubernetesApi, kubeconfig: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["export", "--delete", "--node-name", "worker-1", *kubeconfig]
    assert main(arguments) == 0
    assert capsys.readouterr().out == "noderesourcetopology worker-1: deleted, or there was none\n"
    assert set(api.objects) == {"worker-2", "worker-3"}
    assert main(arguments) == 0


def test_the_objects_of_all_hosts(api: KubernetesApi, kubeconfig: list[str]) -> None:
    assert main(["export", "--delete-all", *kubeconfig]) == 0
    assert set(api.objects) == {"worker-3"}


def test_without_the_crd_there_is_nothing_to_delete(
    api: KubernetesApi, kubeconfig: list[str]
) -> None:
    api.has_crd = False
    assert main(["export", "--delete-all", *kubeconfig]) == 0


def test_failures(
    api: KubernetesApi, kubeconfig: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    api.forbidden = {"DELETE"}
    assert main(["export", "--delete", "--node-name", "worker-1", *kubeconfig]) == 1
    line = capsys.readouterr().err
    assert line.startswith('nri-numamem: cannot delete noderesourcetopology worker-1: User "x" can')
    assert line.endswith("grant this user the permissions in docs/scheduler.md\n")
    api.stop()
    assert main(["export", "--delete-all", *kubeconfig]) == 1
    line = capsys.readouterr().err
    assert line.startswith("nri-numamem: cannot delete all objects of nri-numamem: https://127")


def test_one_action_at_a_time(kubeconfig: list[str]) -> None:
    with pytest.raises(SystemExit):
        main(["export", "--delete", "--delete-all", *kubeconfig])
