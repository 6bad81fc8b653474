"""The pod and container operations of containerd and CRI-O, as far as a plugin observes them.

``FakeRuntime`` accepts or launches one plugin and sends the requests of pods and containers that
are created, updated, stopped and removed. Its store outlives it, so that a test can restart the
runtime. Replies are applied as containerd or CRI-O applies them, except that a reply which they
would silently ignore raises ProtocolViolation.

Sources: containerd internal/cri/nri and internal/nri, CRI-O internal/nri. Differences between
versions are in the module version.
"""

from nri_numamem.ttrpc import Code, StatusError
from tests.laboratory import api_pb2 as api
from tests.laboratory.link import PluginLink
from tests.laboratory.results import (
    PluginRefused,
    ProtocolViolation,
    apply_adjustment,
    check_adjustment,
    check_memory_policy,
    check_updates,
    overlay_resources,
)
from tests.laboratory.store import RuntimeStore
from tests.laboratory.version import RuntimeVersion

__all__ = ["FakeRuntime", "PluginRefused", "ProtocolViolation"]

# The pid of every task. It is only a number in messages.
_TASK_PID = 4711


class FakeRuntime(PluginLink):
    """A runtime with one plugin.

    `store` is the store of a runtime that ended, None for an empty one. With
    `hide_hugepage_limits`, containerd's default, requests have no hugepage limits, and those of
    adjustments are dropped. The other arguments are those of PluginLink.
    """

    def __init__(
        self,
        version: RuntimeVersion | None = None,
        *,
        store: RuntimeStore | None = None,
        hide_hugepage_limits: bool = True,
        request_timeout_s: float = 2.0,
        registration_timeout_s: float = 5.0,
        sync_limit_bytes: int | None = None,
        configure_first: bool = False,
    ) -> None:
        super().__init__(
            version or RuntimeVersion(),
            store or RuntimeStore(),
            request_timeout_s=request_timeout_s,
            registration_timeout_s=registration_timeout_s,
            sync_limit_bytes=sync_limit_bytes,
            configure_first=configure_first,
        )
        self.hide_hugepage_limits = hide_hugepage_limits
        self.memory_policies: dict[str, api.LinuxMemoryPolicy] = {}
        """Container id -> its policy; only containers with one. NRI shows it to no plugin."""
        self.ignored_errors: list[str] = []
        """Errors of the plugin that a runtime only logs."""
        # As in containerd's table: only the pods that this process started.
        self._own_pods: set[str] = set()
        self._reported_stopped: set[str] = set()
        # Containers that ended under an earlier process; the runtime sends no events for them.
        self._unreported = set(self.store.containers) - {c.id for c in self.store.alive()}
        if self.version.is_crio:
            self.store.forget_updates()

    # Pods

    def run_pod_sandbox(self, pod: api.PodSandbox) -> api.PodSandbox:
        """Start a pod and return it.

        After an error reply undo the start and raise PluginRefused.
        """
        try:
            self._notify(api.RUN_POD_SANDBOX, pod)
        except StatusError as error:
            self._notify_ignoring_errors(api.STOP_POD_SANDBOX, pod)
            self._notify_ignoring_errors(api.REMOVE_POD_SANDBOX, pod)
            raise PluginRefused(error.code, error.message) from error
        self.store.pods[pod.id] = pod
        self._own_pods.add(pod.id)
        return pod

    def stop_pod_sandbox(self, pod: api.PodSandbox) -> None:
        """Stop a pod and its containers; for CRI-O raise PluginRefused after an error reply."""
        for container in self.store.containers_of(pod.id):
            if container.state != api.CONTAINER_STOPPED:
                self.stop_container(container)
        if not self._reports_pod(pod):
            return
        try:
            self._notify(api.STOP_POD_SANDBOX, pod)
        except StatusError as error:
            self._fail_on_crio(error)

    def remove_pod_sandbox(self, pod: api.PodSandbox) -> None:
        """Remove a stopped pod with its containers."""
        for container in self.store.containers_of(pod.id):
            self.remove_container(container)
        if self._reports_pod(pod):
            self._notify_ignoring_errors(api.REMOVE_POD_SANDBOX, pod)
        self._own_pods.discard(pod.id)
        del self.store.pods[pod.id]

    def _reports_pod(self, pod: api.PodSandbox) -> bool:
        return self.version.is_crio or pod.id in self._own_pods

    # Containers

    def create_container(
        self, pod: api.PodSandbox, container: api.Container, *, fails_later: bool = False
    ) -> api.Container:
        """Create a container, add it to the store and return it, with the reply's adjustment.

        Raise PluginRefused after an error reply; containerd then sends StopContainer and
        RemoveContainer, CRI-O does not. With `fails_later` raise RuntimeError after the plugin's
        reply, as an error of another plugin or a bad mount would.
        """
        created = api.Container()
        created.CopyFrom(container)
        if self.hide_hugepage_limits:
            created.linux.resources.ClearField("hugepage_limits")
        pristine = api.Container()
        pristine.CopyFrom(created)
        try:
            self._call_create(pod, created)
        except StatusError as error:
            self._undo_creation(pod, pristine)
            raise PluginRefused(error.code, error.message) from error
        if fails_later:
            self._undo_creation(pod, pristine)
            raise RuntimeError(f"creation of {container.name} failed after the plugin's reply")
        created.state = api.CONTAINER_CREATED
        self.store.add_container(created)
        self._notify_ignoring_errors(api.POST_CREATE_CONTAINER, pod, created)
        return created

    def _call_create(self, pod: api.PodSandbox, container: api.Container) -> None:
        if not self._subscribed(api.CREATE_CONTAINER):
            return
        request = api.CreateContainerRequest(pod=pod, container=container)
        response = self._call("CreateContainer", request, api.CreateContainerResponse)
        if response is None:
            return
        check_adjustment(response.adjust)
        check_updates(response.update, response.evict, forbidden_id=container.id)
        apply_adjustment(container, response.adjust, hugetlb=not self.hide_hugepage_limits)
        if response.adjust.linux.HasField("memory_policy"):
            self._set_memory_policy(container, response.adjust.linux.memory_policy)
        self._apply(response.update)
        if self._subscribed(api.VALIDATE_CONTAINER_ADJUSTMENT):
            self._validate(request, response)

    def _set_memory_policy(self, container: api.Container, policy: api.LinuxMemoryPolicy) -> None:
        if not self.version.has_memory_policy:
            raise ProtocolViolation("this NRI drops memory policies")
        check_memory_policy(container, policy)
        self.memory_policies[container.id] = policy

    def _validate(
        self, request: api.CreateContainerRequest, response: api.CreateContainerResponse
    ) -> None:
        check = api.ValidateContainerAdjustmentRequest(
            pod=request.pod,
            container=request.container,
            adjust=response.adjust,
            update=response.update,
        )
        verdict = self._call(
            "ValidateContainerAdjustment", check, api.ValidateContainerAdjustmentResponse
        )
        if verdict is None or verdict.reject:
            reason = verdict.reason if verdict is not None else "the validator did not reply"
            raise StatusError(Code.UNKNOWN, reason)

    def _undo_creation(self, pod: api.PodSandbox, container: api.Container) -> None:
        if self.version.is_crio:
            return
        # The undo events have the container without adjustments and without labels.
        container.ClearField("labels")
        self._report_stopped(pod, container)
        self._notify_ignoring_errors(api.REMOVE_CONTAINER, pod, container)
        self._reported_stopped.discard(container.id)

    def start_container(self, container: api.Container) -> None:
        """Start a created container.

        After an error reply containerd stops it and raises PluginRefused; CRI-O ignores the error.
        """
        pod = self.store.pod_of(container)
        container.pid = _TASK_PID
        try:
            self._notify(api.START_CONTAINER, pod, container)
        except StatusError as error:
            if not self.version.is_crio:
                self.stop_container(container)
                raise PluginRefused(error.code, error.message) from error
            self.ignored_errors.append(str(error))
        container.state = api.CONTAINER_RUNNING
        self._notify_ignoring_errors(api.POST_START_CONTAINER, pod, container)

    def update_container(
        self, container: api.Container, resources: api.LinuxResources
    ) -> api.LinuxResources:
        """Change a container's resources; return the new ones, with the reply's changes.

        Zero and empty values change nothing. Raise PluginRefused after an error reply.
        """
        pod = self.store.pod_of(container)
        updated = api.LinuxResources()
        updated.CopyFrom(resources)
        if self._subscribed(api.UPDATE_CONTAINER):
            request = api.UpdateContainerRequest(
                pod=pod, container=container, linux_resources=resources
            )
            try:
                response = self._call("UpdateContainer", request, api.UpdateContainerResponse)
            except StatusError as error:
                raise PluginRefused(error.code, error.message) from error
            if response is not None:
                check_updates(response.update, response.evict)
                for update in response.update:
                    if update.container_id == container.id:
                        overlay_resources(updated, update.linux.resources)
                self._apply(u for u in response.update if u.container_id != container.id)
        overlay_resources(container.linux.resources, updated)
        self._notify_ignoring_errors(api.POST_UPDATE_CONTAINER, pod, container)
        return updated

    def stop_container(self, container: api.Container, *, exited: bool = True) -> None:
        """End a container; without `exited` its state in the event is unknown (containerd 2.3)."""
        container.state = api.CONTAINER_STOPPED
        container.pid = 0
        shown = api.Container()
        shown.CopyFrom(container)
        if not exited:
            shown.state = api.CONTAINER_UNKNOWN
        self._report_stopped(self.store.pod_of(container), shown)

    def _report_stopped(self, pod: api.PodSandbox, container: api.Container) -> None:
        if container.id in self._reported_stopped:
            return
        self._reported_stopped.add(container.id)
        if not self._subscribed(api.STOP_CONTAINER):
            return
        request = api.StopContainerRequest(pod=pod, container=container)
        try:
            response = self._call("StopContainer", request, api.StopContainerResponse)
        except StatusError as error:
            self.ignored_errors.append(str(error))
            return
        if response is not None:
            check_updates(response.update, forbidden_id=container.id)
            self._apply(response.update)

    def remove_container(self, container: api.Container) -> None:
        """Remove a container; send StopContainer before, unless it was sent."""
        pod = self.store.pod_of(container)
        if container.id not in self._unreported:
            container.state = api.CONTAINER_STOPPED
            self._report_stopped(pod, container)
            self._notify_ignoring_errors(api.REMOVE_CONTAINER, pod, container)
        self._reported_stopped.discard(container.id)
        self.store.drop_container(container.id)
        self.memory_policies.pop(container.id, None)

    def _notify_ignoring_errors(
        self,
        event: "api.Event.ValueType",
        pod: api.PodSandbox,
        container: api.Container | None = None,
    ) -> None:
        try:
            self._notify(event, pod, container)
        except StatusError as error:
            self.ignored_errors.append(str(error))

    def _fail_on_crio(self, error: StatusError) -> None:
        if self.version.is_crio:
            raise PluginRefused(error.code, error.message) from error
        self.ignored_errors.append(str(error))
