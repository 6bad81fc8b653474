"""The exporter's service account at the API server, and its files, as they are in a pod."""

import itertools
from collections.abc import Callable
from functools import partial
from pathlib import Path

from tests.cli.export.exporter_process import ExporterProcess
from tests.cluster.kubernetes.api import Api, ApiError, Document, wait_for
from tests.cluster.kubernetes.servers import ControlPlane
from tests.cluster.scheduling.objects import BINDINGS, NODES, ROLES

StartExporter = Callable[[], ExporterProcess]
"""Starts the exporter with an account."""

NAMESPACE = "kube-system"
_ACCOUNTS = f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts"
_SECRETS = f"/api/v1/namespaces/{NAMESPACE}/secrets"
_TOKEN_S = 3600
# An API server that has not yet noticed the end of an account must not take the next one for it.
_numbers = itertools.count(1)


class Account:
    """A new service account without permissions; `directory` has its token and the authorities."""

    def __init__(self, plane: ControlPlane, directory: Path) -> None:
        self.name = f"exporter-{next(_numbers)}"
        self.user = f"system:serviceaccount:{NAMESPACE}:{self.name}"
        self.directory = directory
        self._plane = plane
        self._admin = plane.admin
        self._tokens = 0
        directory.mkdir()
        (directory / "ca.crt").write_bytes(plane.authority.read_bytes())
        self._admin.create(_ACCOUNTS, {"metadata": {"name": self.name}})
        self.rotate()

    def environment(self, node_name: str) -> dict[str, str]:
        """Return the variables of a pod on this node."""
        return {
            "KUBERNETES_SERVICE_HOST": "127.0.0.1",
            "KUBERNETES_SERVICE_PORT": str(self._plane.port),
            "NODE_NAME": node_name,
        }

    def options(self) -> list[str]:
        return ["--service-account", str(self.directory)]

    def permit(self, role: Document) -> None:
        """Give the account a role; it must have none."""
        self._admin.create(ROLES, {**role, "metadata": {"name": self.name}})
        reference = {
            "apiGroup": "rbac.authorization.k8s.io",
            "kind": "ClusterRole",
            "name": self.name,
        }
        subject = {"kind": "ServiceAccount", "name": self.name, "namespace": NAMESPACE}
        binding = {"metadata": {"name": self.name}, "roleRef": reference, "subjects": [subject]}
        self._admin.create(BINDINGS, binding)
        # The API server's authorizer reads roles in the background.
        for rule in role["rules"]:
            for verb in rule["verbs"]:
                wait_for(partial(self._may, verb, rule), f"the permission to {verb}")

    def rotate(self) -> None:
        """Replace the token, and wait until the API server refuses the former one."""
        former = self._client() if self._tokens else None
        self._tokens += 1
        # A token is valid as long as the object exists to which it is bound.
        name = f"{self.name}-{self._tokens}"
        uid = self._admin.create(_SECRETS, {"metadata": {"name": name}})["metadata"]["uid"]
        bound = {"apiVersion": "v1", "kind": "Secret", "name": name, "uid": uid}
        request = {"spec": {"expirationSeconds": _TOKEN_S, "boundObjectRef": bound}}
        answer = self._admin.create(f"{_ACCOUNTS}/{self.name}/token", request)
        new = self.directory / "token.new"
        new.write_text(answer["status"]["token"])
        new.replace(self.directory / "token")
        if former is not None:
            self._admin.delete(f"{_SECRETS}/{self.name}-{self._tokens - 1}")
            wait_for(lambda: _is_refused(former), "the end of the former token")

    def remove(self) -> None:
        """Delete the account with its permissions and tokens."""
        paths = [f"{BINDINGS}/{self.name}", f"{ROLES}/{self.name}", f"{_ACCOUNTS}/{self.name}"]
        paths += [f"{_SECRETS}/{self.name}-{number + 1}" for number in range(self._tokens)]
        for path in paths:
            self._admin.delete(path, missing_ok=True)

    def _client(self) -> Api:
        token = (self.directory / "token").read_text()
        return Api(self._plane.port, self._plane.authority, token)

    def _may(self, verb: str, rule: Document) -> bool:
        resource = {"verb": verb, "group": rule["apiGroups"][0], "resource": rule["resources"][0]}
        review = {"spec": {"user": self.user, "resourceAttributes": resource}}
        path = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
        answer = self._admin.create(path, review | {"apiVersion": "authorization.k8s.io/v1"})
        return bool(answer["status"]["allowed"])


def _is_refused(client: Api) -> bool:
    try:
        client.get(NODES)
    except ApiError as error:
        return error.status == 401  # else it is known, and lacks the permission
    return False
