"""The setting partitions: its keys, its documents, its errors, and its JSON schema."""

from collections.abc import Mapping

import jsonschema
import pytest

from nri_numamem.config.errors import UsageError
from nri_numamem.config.load import load_text
from nri_numamem.config.partitions import PARTITIONS
from nri_numamem.config.policy import context_of, policy_of
from nri_numamem.config.settings import (
    Settings,
    SettingsError,
    settings_from_mapping,
    settings_to_mapping,
)
from nri_numamem.engine.features.partitions.layouts import layout_of
from nri_numamem.numa import Exclusive, Machine, NodeSet, NumaNode, Partition

ONE = "keep each node in one of them"
NAMESPACE = "a namespace, or a pattern such as ml-*"
KEYS = "name, nodes, count, namespaces, selector, exclusive, confine"
NODES = 'write ids from 0 to 1023, such as "4-7" or "2,4"'
LABEL = "write the label's whole value, in quotes if it looks like a number"
OF_REST = "default stands for the pods and NUMA nodes of no other partition"


def read(value: object) -> tuple[Partition, ...]:
    return settings_from_mapping({"partitions": value}).partitions


def written(value: tuple[Partition, ...]) -> object:
    return settings_to_mapping(Settings(partitions=value)).get("partitions")


def entry(**keys: object) -> dict[str, object]:
    """Return an entry that is valid unless the keys make it invalid."""
    return {"name": "web", "nodes": "1", "namespaces": ["shop"], **keys}


def is_valid(value: object) -> bool:
    """Return whether the JSON schema accepts the value."""
    return bool(jsonschema.Draft7Validator(PARTITIONS.kind.schema).is_valid(value))


def test_there_are_none_by_default() -> None:
    assert read(None) == read([]) == Settings().partitions == ()
    assert written(()) is None
    assert policy_of(Settings()).partitions == ()


ALL_KEYS: Mapping[str, object] = {
    "name": "inference",
    "nodes": "2-3",
    "namespaces": ["ml-*", "serving"],
    "selector": {"app.kubernetes.io/part-of": "serving", "tier": ""},
    "exclusive": "all",
    "confine": True,
}


def test_all_keys() -> None:
    (found,) = read([ALL_KEYS])
    assert found == Partition(
        "inference",
        NodeSet([2, 3]),
        0,
        ("ml-*", "serving"),
        {"app.kubernetes.io/part-of": "serving", "tier": ""},
        Exclusive.ALL,
        confine=True,
    )
    assert written((found,)) == [ALL_KEYS]
    assert policy_of(Settings(partitions=(found,))).partitions == (found,)


def test_keys_that_are_left_out_have_defaults() -> None:
    (found,) = read([{"name": "jobs", "count": "2", "selector": {"job": "yes"}}])
    assert (found.nodes, found.count, found.namespaces) == (NodeSet(), 2, ())
    assert (found.exclusive, found.confine) == (Exclusive.NONE, False)
    document = {"name": "jobs", "count": 2, "selector": {"job": "yes"}}
    assert written((found,)) == [{**document, "exclusive": "none", "confine": False}]


def test_an_entry_may_describe_the_rest() -> None:
    for confine in (None, False, "true"):
        (found,) = read([{"name": "default", "nodes": None, "confine": confine}])
        assert found.is_rest
        assert written((found,)) == [{"name": "default", "confine": confine == "true"}]


ACCEPTED: tuple[list[dict[str, object]], ...] = (
    [dict(ALL_KEYS)],
    [entry(), entry(name="jobs", nodes=None, count=1), {"name": "default", "confine": True}],
    [entry(nodes=1)],
    [entry(nodes=None, count="1")],
    [entry(namespaces=None, selector={"a": "1.5", "example.com/B_c": "x-Y_z.0"})],
    [entry(exclusive=None, confine=None, selector=None, count=None)],
    [entry(name="a" * 63, confine="f", exclusive="guaranteed")],
    [entry(name="0-1", namespaces=["*", "kube-*"])],
    # Two partitions that match the same pods: the first one counts.
    [entry(), entry(name="other", nodes="0")],
)


@pytest.mark.parametrize("value", ACCEPTED)
def test_a_written_value_is_read_back(value: list[object]) -> None:
    found = read(value)
    assert len(found) == len(value)
    assert read(written(found)) == found


@pytest.mark.parametrize("value", [None, [], *ACCEPTED])
def test_the_schema_accepts_what_is_read(value: list[object] | None) -> None:
    found = read(value)
    assert is_valid(written(found) or [])
    assert value is None or is_valid(value)


@pytest.mark.parametrize(
    "value",
    [
        {},
        ["web"],
        [{"nodes": "1"}],
        [entry(name="Web")],
        [entry(name=None)],
        [entry(nodes=["1"])],
        [entry(nodes=None, count=0)],
        [entry(nodes=None, count=1025)],
        [entry(namespaces="shop")],
        [entry(namespaces=[5])],
        [entry(selector={"app": 5})],
        [entry(exclusive="yes")],
        [entry(confine="maybe")],
        [entry(node="1")],
    ],
)
def test_the_schema_refuses_what_is_refused(value: object) -> None:
    with pytest.raises(SettingsError):
        read(value)
    assert not is_valid(value)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (
            {"web": {}},
            (
                "partitions: a mapping instead of a list; write a list such as [{name: web, nodes: "
                "2-3, namespaces: [web]}]"
            ),
        ),
        (["web"], "partitions[0]: 'web' instead of a mapping; write KEY: VALUE"),
        (
            [entry(), {"nodes": "2", "namespaces": ["b"]}],
            "partitions[1].name: missing; write a name such as web",
        ),
        (
            [entry(node="1")],
            f"partitions[0].node: unknown key; did you mean nodes? allowed: {KEYS}",
        ),
        (
            [entry(), entry(nodes="2")],
            "partitions[1].name: another partition has the name web; give each its own",
        ),
        (
            [{"name": "default"}, {"name": "default"}],
            "partitions[1].name: another partition has the name default; give each its own",
        ),
        (
            [entry(nodes="0-2"), entry(name="b", nodes="4"), entry(name="c", nodes="1-4")],
            f"partitions[2].nodes: NUMA nodes 1-2 are also in partition web; {ONE}",
        ),
        (
            [entry(), entry(name="b", nodes="0-1")],
            f"partitions[1].nodes: NUMA node 1 is also in partition web; {ONE}",
        ),
        ([entry(count=1)], "partitions[0].count: nodes is set too; keep one of the two"),
        (
            [entry(nodes=None)],
            "partitions[0]: partition web has no NUMA nodes; write nodes, such as 2-3, or count",
        ),
        (
            [entry(namespaces=[], selector={})],
            "partitions[0]: partition web would have all pods; write namespaces or selector",
        ),
        (
            [{"name": "default", "nodes": "1"}],
            f"partitions[0].nodes: {OF_REST}; keep only name and confine",
        ),
        (
            [{"name": "default", "exclusive": "none"}],
            f"partitions[0].exclusive: {OF_REST}; keep only name and confine",
        ),
    ],
)
def test_errors_of_entries(value: object, text: str) -> None:
    with pytest.raises(SettingsError) as caught:
        read(value)
    assert str(caught.value) == text


@pytest.mark.parametrize("name", ["", "Web", "-a", "a-", "a_b", "a.b", "a" * 64, "a\n", 5, ["a"]])
def test_other_names_are_refused(name: object) -> None:
    with pytest.raises(SettingsError) as caught:
        read([entry(name=name)])
    problem, _, remedy = str(caught.value).partition("; ")
    assert problem.startswith("partitions[0].name: ")
    assert problem.endswith(" is not a name")
    assert remedy == "write at most 63 of a-z, 0-9 and -, such as web"


@pytest.mark.parametrize(
    ("keys", "text"),
    [
        ({"nodes": ""}, f"nodes: '' is not a list of NUMA nodes; {NODES}"),
        ({"nodes": "a"}, f"nodes: 'a' is not a list of NUMA nodes; {NODES}"),
        ({"nodes": 1024}, f"nodes: 1024 is not a list of NUMA nodes; {NODES}"),
        ({"nodes": [1, 2]}, f"nodes: a list instead of NUMA nodes as text; {NODES}"),
        ({"count": 0}, "count: 0 is out of range; write a whole number from 1 to 1024"),
        ({"count": "two"}, "count: 'two' is out of range; write a whole number from 1 to 1024"),
        (
            {"namespaces": "shop"},
            f"namespaces: 'shop' instead of a list; write a list, each {NAMESPACE}",
        ),
        ({"namespaces": ["a", 5]}, f"namespaces[1]: 5 is not {NAMESPACE}; write {NAMESPACE}"),
        ({"namespaces": ["Shop"]}, f"namespaces[0]: 'Shop' is not {NAMESPACE}; write {NAMESPACE}"),
        (
            {"namespaces": ["[a-b]"]},
            f"namespaces[0]: '[a-b]' is not {NAMESPACE}; write {NAMESPACE}",
        ),
        ({"selector": ["app"]}, "selector: a list instead of a mapping; write KEY: VALUE"),
        ({"selector": {5: "x"}}, "selector: the key 5 is not text; put it in quotes"),
        (
            {"selector": {"an app": "x"}},
            (
                "selector.an app: this is not the key of a label; write a key such as "
                "app.kubernetes.io/name"
            ),
        ),
        ({"selector": {"app": 5}}, f"selector.app: 5 is not the value of a label; {LABEL}"),
        ({"selector": {"app": True}}, f"selector.app: True is not the value of a label; {LABEL}"),
        ({"selector": {"app": None}}, f"selector.app: None is not the value of a label; {LABEL}"),
        ({"selector": {"app": "a*"}}, f"selector.app: 'a*' is not the value of a label; {LABEL}"),
        (
            {"exclusive": True},
            "exclusive: unknown value True; allowed: none, guaranteed, all",
        ),
        ({"confine": "yes"}, 'confine: \'yes\' is not a boolean; write "true" or "false"'),
    ],
)
def test_errors_of_values(keys: dict[str, object], text: str) -> None:
    with pytest.raises(SettingsError) as caught:
        read([entry(**keys)])
    assert str(caught.value) == f"partitions[0].{text}"


FOUR = Machine(tuple(NumaNode(node, 1 << 30) for node in range(4)))
FILE = """\
logLevel: info
partitions:
- name: web
  nodes: {nodes}
  namespaces: [web-*]
  exclusive: guaranteed
- name: jobs
  count: 2
  selector: {{app: {label}}}
  exclusive: all
"""


def test_an_error_names_file_and_line() -> None:
    with pytest.raises(UsageError, match=r"^x\.yaml:9: partitions\[1\]\.selector\.app: 5 is not"):
        load_text(FILE.format(nodes="0", label=5), "x.yaml")


def test_partitions_that_leave_no_node_name_file_and_line() -> None:
    settings = load_text(FILE.format(nodes="2-3", label="a"), "x.yaml")
    with pytest.raises(UsageError) as caught:
        context_of(settings, FOUR)
    assert str(caught.value) == (
        "x.yaml:2: partitions: the exclusive ones have all NUMA nodes of this machine (0-3); "
        "leave at least one node to the other pods"
    )


@pytest.mark.parametrize(("nodes", "problem"), [("2-3,7", True), ("2", False)])
def test_nodes_that_this_machine_lacks_are_accepted(nodes: str, *, problem: bool) -> None:
    settings = load_text(FILE.format(nodes=nodes, label="a"), "x.yaml")
    layout = layout_of(context_of(settings, FOUR))
    assert layout is not None
    web, jobs = layout.entries
    assert bool(web.problem) is problem
    assert (jobs.nodes, jobs.problem) == (NodeSet([0, 1]), "")
