"""Objects of the API for the tests of scheduling: paths, a Node, pods, and what became of a pod."""

from tests.cluster.kubernetes.api import Api, ApiError, Document, wait_for

GI = 1 << 30
NAMESPACE = "shop"
PODS = f"/api/v1/namespaces/{NAMESPACE}/pods"
NODES = "/api/v1/nodes"
CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
CRD = "noderesourcetopologies.topology.node.k8s.io"
TOPOLOGIES = "/apis/topology.node.k8s.io/v1alpha2/noderesourcetopologies"
ROLES = "/apis/rbac.authorization.k8s.io/v1/clusterroles"
BINDINGS = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings"


def create_namespace(admin: Api, name: str) -> None:
    """Create a namespace with its default service account, as a controller would."""
    admin.create("/api/v1/namespaces", {"metadata": {"name": name}})
    path = f"/api/v1/namespaces/{name}/serviceaccounts"
    admin.create(path, {"metadata": {"name": "default"}})


def create_crd(admin: Api, definition: Document) -> None:
    """Create the CRD of NodeResourceTopology and wait until the API server serves it."""
    admin.create(CRDS, definition)
    wait_for(lambda: _is_served(admin), "NodeResourceTopology in the API")


def _is_served(admin: Api) -> bool:
    try:
        return admin.exists(TOPOLOGIES)
    except ApiError:
        return False


def create_node(admin: Api, name: str, cpus: int, memory_bytes: int) -> str:
    """Create a ready Node; return its uid."""
    uid: str = admin.create(NODES, {"metadata": {"name": name}})["metadata"]["uid"]
    amounts = {"cpu": str(cpus), "memory": str(memory_bytes), "pods": "110"}
    ready = {"type": "Ready", "status": "True", "reason": "KubeletReady"}
    status = {"capacity": amounts, "allocatable": amounts, "conditions": [ready]}
    admin.merge(f"{NODES}/{name}/status", {"status": status})
    return uid


def create_pod(
    admin: Api, name: str, memory_bytes: int, *, scheduler: str = "", node: str = ""
) -> None:
    """Create a Guaranteed pod with one container, for a profile or already on a node."""
    amounts = {"cpu": "500m", "memory": str(memory_bytes)}
    container = {
        "name": "main",
        "image": "registry.invalid/main",
        "resources": {"requests": amounts, "limits": amounts},
    }
    spec: Document = {"containers": [container]}
    spec |= {"nodeName": node} if node else {"schedulerName": scheduler}
    admin.create(PODS, {"metadata": {"name": name}, "spec": spec})


def set_phase(admin: Api, pod: str, phase: str) -> None:
    """Set the phase of a pod, as its kubelet would."""
    admin.merge(f"{PODS}/{pod}/status", {"status": {"phase": phase}})


def node_of(admin: Api, pod: str) -> str:
    """Return the node of a pod; "" while it has none."""
    name: str = admin.get(f"{PODS}/{pod}")["spec"].get("nodeName", "")
    return name


def bound_node(admin: Api, pod: str) -> str:
    """Wait until a pod has a node; return its name."""
    wait_for(lambda: node_of(admin, pod), f"a node for {pod}")
    return node_of(admin, pod)


def unschedulable_text(admin: Api, pod: str) -> str:
    """Wait until the scheduler has rejected a pod; return its text."""
    wait_for(lambda: _rejection(admin, pod), f"a rejection of {pod}")
    return _rejection(admin, pod)


def is_decided(admin: Api, pod: str) -> bool:
    """Return whether the scheduler has given a pod a node, or rejected it."""
    return bool(node_of(admin, pod) or _rejection(admin, pod))


def _rejection(admin: Api, pod: str) -> str:
    """Return the text of a rejection; "" if there is none."""
    for condition in admin.get(f"{PODS}/{pod}")["status"].get("conditions", ()):
        if condition["type"] == "PodScheduled" and condition["status"] == "False":
            assert condition["reason"] == "Unschedulable", condition
            text: str = condition["message"]
            return text
    return ""
