"""``explain`` of what the state file has, and the history has not."""

import json
from pathlib import Path

import pytest

from nri_numamem.cli.explain.assigned import Assigned, assigned, assigned_document
from nri_numamem.cli.explain.select import Query
from nri_numamem.cli.main import main
from nri_numamem.numa import NodeSet
from tests.cli.live.live_host import CHANGED_S, GI, LiveHost, four_nodes


@pytest.fixture(name="host")
def _host(tmp_path: Path) -> LiveHost:
    host = LiveHost(tmp_path, four_nodes())
    host.run("db", "postgres", 40 * GI, pages=1)
    backup, _plan = host.create(host.sandbox("db-2"), "backup", 8 * GI)
    host.write_cgroup("db-2", backup.container_id, "0", 8 * GI)
    host.stop("db-2", backup)
    host.save()
    return host


def explain(host: LiveHost, *words: str) -> int:
    return main(["explain", *words, "--state-file", str(host.state_file)])


def test_containers_of_the_state_file(host: LiveHost) -> None:
    (found,) = assigned(host.state_file, Query.parsed("shop/db-x"), ())
    amounts = {"memory": 40 * GI, "hugepages-1Gi": GI}
    assert found == Assigned(
        found.names,
        NodeSet([0]),
        amounts,
        has_ended=False,
        since_s=CHANGED_S,
        event="admitted",
    )
    assert (found.names.full_pod, found.names.key) == ("shop/db-x", ("db", "postgres"))
    assert assigned(host.state_file, Query.parsed("db/postgres"), ()) == (found,)
    assert assigned(host.state_file, Query.parsed("db"), {("db", "postgres")}) == ()
    assert assigned(host.state_file, Query.parsed("other"), ()) == ()
    assert assigned(host.root / "none", Query.parsed("db"), ()) == ()
    host.state_file.write_text("damaged")
    assert assigned(host.state_file, Query.parsed("db"), ()) == ()


def test_the_screen(
    host: LiveHost, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "100")
    assert explain(host, "db-x") == 0
    heading, when, nodes, memory, because = capsys.readouterr().out.splitlines()
    assert heading.startswith("shop/db-x, container postgres: placed ")
    assert when == "  when      2026-09-21 14:13:20 UTC  admitted"
    assert nodes == "  nodes     0"
    assert memory == "  memory    40Gi memory, 1Gi hugepages-1Gi"
    assert because == "  because   unknown: the decision is not in the history"
    assert explain(host, "db-2") == 0
    assert "backup: ended, its memory is kept for its pod" in capsys.readouterr().out
    assert explain(host, "nothing") == 1


def test_the_document(host: LiveHost, capsys: pytest.CaptureFixture[str]) -> None:
    assert explain(host, "db-x", "--output", "json") == 0
    document = json.loads(capsys.readouterr().out)
    assert document["assigned"] == [
        {
            "namespace": "shop",
            "pod": "db-x",
            "podUid": "db",
            "container": "postgres",
            "nodes": [0],
            "resources": {"hugepages-1Gi": GI, "memory": 40 * GI},
            "ended": False,
            "since": "2026-09-21T14:13:20Z",
            "event": "admitted",
        }
    ]
    assert assigned_document([]) == document["containers"] == []
