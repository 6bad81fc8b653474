"""`simulate` with objects of kubectl: options, errors, exit status."""

import json
from pathlib import Path

import pytest
import yaml

from nri_numamem.cli.main import main
from tests.cli.live.live_host import GI, LiveHost, four_nodes
from tests.cli.simulate.kubectl import Object, deployment, pod

MACHINE = "machine: {nodes: [{id: 0, memory: 40Gi}, {id: 1, memory: 40Gi}]}\n"
SCENARIO = f"{MACHINE}pods: [{{metadata: {{uid: a}}, spec: {{containers: [{{name: c}}]}}}}]\n"


@pytest.fixture(name="machine")
def _machine(tmp_path: Path) -> list[str]:
    path = tmp_path / "machine.yaml"
    path.write_text(MACHINE)
    return ["--machine", str(path)]


@pytest.fixture(name="host")
def _host(tmp_path: Path) -> LiveHost:
    host = LiveHost(tmp_path / "host", four_nodes())
    host.run("db", "postgres", 40 * GI)
    host.save()
    return host


def write(tmp_path: Path, *objects: Object) -> str:
    path = tmp_path / "objects.yaml"
    path.write_text(yaml.safe_dump_all(objects))
    return str(path)


def test_an_empty_machine(
    tmp_path: Path, machine: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    path = write(tmp_path, {"kind": "List", "items": [deployment("web", 3), {"kind": "Service"}]})
    assert main(["simulate", *machine, "--output", "json", path]) == 0
    (web,) = json.loads(capsys.readouterr().out)["workloads"]
    assert (web["fit"], web["pods"][1]) == (2, {"name": "web-1", "cpusetMems": {"c": "1"}})
    assert main(["simulate", *machine, "--fail-on-refusal", "--output", "yaml", path]) == 1
    assert yaml.safe_load(capsys.readouterr().out)["workloads"] == [web]
    assert main(["simulate", *machine, "--summary", path]) == 0
    assert capsys.readouterr().out.startswith("The machine without pods; best-effort, scope")
    assert main(["simulate", *machine, "--fail-on-refusal", write(tmp_path, pod("web"))]) == 0


def test_this_host_without_pods(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["simulate", write(tmp_path, pod("web", "1Mi"))]) == 0
    assert "This host without pods" in capsys.readouterr().out


def test_json_of_kubectl(
    tmp_path: Path, machine: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "pod.json"
    path.write_text(json.dumps(pod("web"), indent="\t"))
    assert main(["simulate", *machine, "--summary", str(path)]) == 0
    assert "Pod shop/web: fits" in capsys.readouterr().out


def test_this_host_now(host: LiveHost, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = write(tmp_path, deployment("web", 9))
    arguments = ["simulate", "--now", "--summary", *host.arguments(), path]
    assert main(arguments) == 0
    first = capsys.readouterr().out
    assert "the plugin does not run, so this is its" in first
    assert "3 of 9 pods fit" in first
    with host.running():
        assert main([*arguments, "--without", "db-x", "--fail-on-refusal"]) == 1
    assert "4 of 9 pods fit" in capsys.readouterr().out
    host.state_file.unlink()
    assert main(arguments) == 0
    assert "4 of 9 pods fit" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("text", "options", "problem"),
    [
        ("kind: Service\n", "", ": no pods; give a Pod, a Deployment, a ReplicaSet"),
        ("kind: Pod\n", "", ":1: metadata.name: missing; write a name"),
        ("[]\n", "--now", ":1: expected an object with kind, such as a Pod"),
        (SCENARIO, "--now", ":1: no kind; expected an object such as Pod, Deployment"),
        (
            "kind: Service\n---\nkind: Deployment\nmetadata: {name: a}\nspec:\n  replicas: x\n",
            "",
            ":6: spec.replicas: expected a number from 0 to 10000",
        ),
        (
            "kind: Service\n---\nkind: Pod\nmetadata: {name: a}\nspec:\n  containers: []\n",
            "",
            ":6: spec.containers: no containers; a pod has at least one",
        ),
    ],
)
def test_objects_that_cannot_be_used(
    text: str,
    options: str,
    problem: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    path = tmp_path / "objects.yaml"
    path.write_text(text)
    assert main(["simulate", *options.split(), str(path)]) == 2
    out, error = capsys.readouterr()
    assert out == ""
    assert error.startswith(f"nri-numamem: {path}{problem}")
    assert error.count("\n") == 1


@pytest.mark.parametrize(
    ("text", "options", "problem"),
    [
        (SCENARIO, "--without a", "--without: PATH is a scenario; give objects of Kubernetes"),
        (SCENARIO, "--machine PATH", "--machine: PATH is a scenario"),
        ("kind: Pod\n", "--state PATH", "--state: PATH has objects of Kubernetes"),
        ("kind: Pod\n", "--without a", "--without: only with --now"),
        ("kind: Pod\n", "--now --machine PATH", "--machine: not with --now"),
    ],
)
def test_options_that_exclude_each_other(
    text: str,
    options: str,
    problem: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    path = tmp_path / "file.yaml"
    path.write_text(text)
    words = [word.replace("PATH", str(path)) for word in options.split()]
    assert main(["simulate", *words, str(path)]) == 2
    error = capsys.readouterr().err
    assert error.startswith(f"nri-numamem: {problem.replace('PATH', str(path))}")


def test_a_host_that_cannot_be_read(
    host: LiveHost, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write(tmp_path, pod("web"))
    arguments = ["simulate", "--now", *host.arguments(), path]
    assert main([*arguments, "--without", "zz"]) == 2
    assert "--without: the plugin has placed no pod zz" in capsys.readouterr().err
    host.state_file.write_text("x")
    assert main(arguments) == 2
    error = capsys.readouterr().err
    assert error.startswith(f"nri-numamem: {host.state_file}: not JSON")
    assert error.endswith("; see nri-numamem status\n")
