"""Resource claims in the Helm chart: the agent's pod, its permissions, classes and policies."""

from pathlib import Path
from typing import Any

from nri_numamem.cli.main import new_parser
from nri_numamem.config.settings import STATE_FILE
from nri_numamem.export.resourceslice import DRIVER, SEVERAL_NODES, device_classes
from nri_numamem.kubelet.dra import driver_socket, registration_socket
from nri_numamem.observe.claim_files import directory_of, intents_file
from tests.packaging import manifests
from tests.packaging.manifests import NAME, Manifest, render_chart, validated

pytestmark = manifests.needs_tools

AGENT = f"{NAME}-export"
CLAIMS = {"claims.enabled": True}
KUBELET = Path("/var/lib/kubelet")


def pod() -> Manifest:
    found: Manifest = validated(render_chart(CLAIMS))["DaemonSet", AGENT]["spec"]["template"][
        "spec"
    ]
    return found


def policy(name: str) -> Manifest:
    found: Manifest = validated(render_chart(CLAIMS))["ValidatingAdmissionPolicy", name]["spec"]
    return found


def test_they_are_off_by_default() -> None:
    for values in ({}, {"export.enabled": True}):
        text = render_chart(values)
        assert "resource.k8s.io" not in text
        assert "--claims" not in text


def test_the_exporters_pod_is_the_agent() -> None:
    (container,) = pod()["containers"]
    args = new_parser(["agent"]).parse(container["args"])
    assert args.claims
    assert validated(render_chart({**CLAIMS, "export.enabled": True})) == validated(
        render_chart(CLAIMS)
    )


def test_it_writes_only_intents_and_sockets() -> None:
    (container,) = pod()["containers"]
    written = {
        mount["name"]: mount["mountPath"]
        for mount in container["volumeMounts"]
        if not mount.get("readOnly")
    }
    intents = intents_file(directory_of(Path(STATE_FILE))).parent
    assert set(written.values()) == {
        str(intents),
        str(driver_socket(KUBELET, DRIVER).parent),
        str(registration_socket(KUBELET, DRIVER).parent),
    }
    volumes = {volume["name"]: volume for volume in pod()["volumes"]}
    for name, path in written.items():
        assert volumes[name]["hostPath"] == {"path": path, "type": "DirectoryOrCreate"}
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "capabilities": {"drop": ["ALL"]},
        "readOnlyRootFilesystem": True,
    }


def test_the_agent_reads_claims_and_writes_slices() -> None:
    rules = validated(render_chart(CLAIMS))["ClusterRole", AGENT]["rules"]
    assert {
        (*rule["resources"], *rule["verbs"])
        for rule in rules
        if rule["apiGroups"] == ["resource.k8s.io"]
    } == {
        ("resourceclaims", "get"),
        ("resourceslices", "get", "patch", "create", "delete"),
    }


def test_the_classes_are_those_that_the_program_prints() -> None:
    found = validated(render_chart(CLAIMS))
    classes = {name: item["spec"] for (kind, name), item in found.items() if kind == "DeviceClass"}
    made: list[dict[str, Any]] = device_classes(("memory", "hugepages-2Mi", "hugepages-1Gi"))
    assert classes == {each["metadata"]["name"]: each["spec"] for each in made}


def test_an_agent_writes_only_the_slice_of_its_node() -> None:
    spec = policy(f"{NAME}-slices")
    (rule,) = spec["matchConstraints"]["resourceRules"]
    assert (rule["resources"], rule["operations"]) == (
        ["resourceslices"],
        ["CREATE", "UPDATE", "DELETE"],
    )
    (condition,) = spec["matchConditions"]
    account = f"system:serviceaccount:kube-system:{AGENT}"
    assert condition["expression"] == f'request.userInfo.username == "{account}"'
    variables = {each["name"]: each["expression"] for each in spec["variables"]}
    assert variables["node"] == (
        'request.userInfo.extra[?"authentication.kubernetes.io/node-name"][0].orValue("")'
    )
    node, driver = (each["expression"] for each in spec["validations"])
    assert node == (
        'variables.node != "" && variables.slice.spec.?nodeName.orValue("") == variables.node'
    )
    assert driver == f'variables.slice.spec.driver == "{DRIVER}"'
    assert spec["failurePolicy"] == "Fail"


def test_claims_of_several_nodes_need_their_class() -> None:
    spec = policy(f"{NAME}-claims")
    (rule,) = spec["matchConstraints"]["resourceRules"]
    assert (rule["resources"], rule["operations"]) == (
        ["resourceclaims", "resourceclaimtemplates"],
        ["CREATE"],
    )
    (listed,) = (each["expression"] for each in spec["variables"] if each["name"] == "classes")
    made: list[dict[str, Any]] = device_classes(("memory", "hugepages-2Mi", "hugepages-1Gi"))
    names = [each["metadata"]["name"] for each in made]
    single = [name for name in names if not name.endswith(SEVERAL_NODES)]
    assert listed == "[" + ", ".join(f'"{name}"' for name in single) + "]"
    assert spec["failurePolicy"] == "Ignore"


def test_the_policies_deny() -> None:
    found = validated(render_chart({**CLAIMS, "nameOverride": "numamem"}))
    for name in ("numamem-slices", "numamem-claims"):
        binding = found["ValidatingAdmissionPolicyBinding", name]["spec"]
        assert binding == {"policyName": name, "validationActions": ["Deny"]}
        assert ("ValidatingAdmissionPolicy", name) in found


def test_claims_can_count_for_the_node() -> None:
    (container,) = pod()["containers"]
    assert not new_parser(["agent"]).parse(container["args"]).node_allocatable
    rendered = validated(render_chart({**CLAIMS, "claims.nodeAllocatable": True}))
    (container,) = rendered["DaemonSet", AGENT]["spec"]["template"]["spec"]["containers"]
    assert new_parser(["agent"]).parse(container["args"]).node_allocatable
    assert not [
        each for each in render_chart({"export.enabled": True}).split() if "allocatable" in each
    ]
