"""What the Helm chart creates at the API server for the agent, besides pods.

Its account with permissions; for resource claims also device classes and policies.
"""

from collections.abc import Mapping

import yaml

from tests.cluster.kubernetes.api import Api, Document, wait_for
from tests.conformance.scheduler_check import crd
from tests.packaging.manifests import render_chart

_RBAC = "/apis/rbac.authorization.k8s.io/v1"
_ADMISSION = "/apis/admissionregistration.k8s.io/v1"
_COLLECTIONS: Mapping[str, str] = {
    "ServiceAccount": "/api/v1/namespaces/kube-system/serviceaccounts",
    "ClusterRole": f"{_RBAC}/clusterroles",
    "ClusterRoleBinding": f"{_RBAC}/clusterrolebindings",
    "Role": f"{_RBAC}/namespaces/default/roles",
    "RoleBinding": f"{_RBAC}/namespaces/default/rolebindings",
    "ValidatingAdmissionPolicy": f"{_ADMISSION}/validatingadmissionpolicies",
    "ValidatingAdmissionPolicyBinding": f"{_ADMISSION}/validatingadmissionpolicybindings",
    "DeviceClass": "/apis/resource.k8s.io/v1/deviceclasses",
}
_ON_HOSTS = {"ConfigMap", "DaemonSet"}
_CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
_KUBE_SYSTEM = "/api/v1/namespaces/kube-system"


CLAIMS: Mapping[str, object] = {"claims.enabled": True}


def create(admin: Api, values: Mapping[str, object] = CLAIMS) -> None:
    """Create them, and the CRD of NodeResourceTopology, which the chart expects."""
    wait_for(lambda: admin.exists(_KUBE_SYSTEM), "the namespace kube-system")
    admin.create(_CRDS, crd())
    for document in yaml.safe_load_all(render_chart(values)):
        if document and document["kind"] not in _ON_HOSTS and not _is_hook(document):
            admin.create(_COLLECTIONS[document["kind"]], document)


def _is_hook(document: Document) -> bool:
    """Return whether helm creates it for the removal of the chart only."""
    return "helm.sh/hook" in document["metadata"].get("annotations", ())
