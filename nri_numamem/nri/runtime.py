"""A container runtime without containers: what containerd's NRI does on the wire, for tests.

``EmbeddedRuntime`` accepts or launches one plugin and plays a node's life through it: pods come
and go, containers are created, updated and stopped, the runtime restarts. It keeps pods and
containers in a store that outlives it, and applies what the plugin answers as containerd (or
CRI-O) would, but fails loudly where they are lenient (ProtocolViolation).

    with EmbeddedRuntime() as runtime:
        runtime.listen(path); ...start the plugin...; runtime.accept(); runtime.synchronize()
        pod = runtime.run_pod_sandbox(objects.pod("db"))
        print(runtime.create_container(pod, objects.container(pod, "server")).linux.resources)

Single-threaded, every wait is limited. Sources: containerd internal/cri/nri and internal/nri,
CRI-O internal/nri; which version does what is in runtime_version.
"""

from nri_numamem.nri import api_pb2 as api
from nri_numamem.nri.runtime_link import PluginLink
from nri_numamem.nri.runtime_results import (
    PluginRefused,
    ProtocolViolation,
    apply_adjustment,
    check_adjustment,
    check_updates,
    overlay_resources,
)
from nri_numamem.nri.runtime_store import RuntimeStore
from nri_numamem.nri.runtime_version import RuntimeVersion
from nri_numamem.ttrpc import Code, StatusError

__all__ = ["EmbeddedRuntime", "PluginRefused", "ProtocolViolation"]

# A pid for tasks; nobody looks it up.
_TASK_PID = 4711


class EmbeddedRuntime(PluginLink):
    """The pod and container operations of a runtime with one plugin.

    `store` is taken over from a runtime that ended. `hide_hugepage_limits` is containerd's
    default: hugepage limits are shown to nobody, and dropped from adjustments. The remaining
    arguments are PluginLink's.
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
        self.ignored_errors: list[str] = []
        """Errors of the plugin that a runtime only logs."""
        # What containerd's state table holds: of pods, only those that this process started.
        self._own_pods: set[str] = set()
        self._told_stopped: set[str] = set()
        # Containers that ended under an earlier process: nothing is said about them any more.
        self._silent = set(self.store.containers) - {c.id for c in self.store.alive()}
        if self.version.is_crio:
            self.store.forget_updates()

    # Pods

    def run_pod_sandbox(self, pod: api.PodSandbox) -> api.PodSandbox:
        """Start a pod and return it; PluginRefused when the plugin objects, after undoing it."""
        try:
            self._notify(api.RUN_POD_SANDBOX, pod)
        except StatusError as error:
            self._notify_leniently(api.STOP_POD_SANDBOX, pod)
            self._notify_leniently(api.REMOVE_POD_SANDBOX, pod)
            raise PluginRefused(error.code, error.message) from error
        self.store.pods[pod.id] = pod
        self._own_pods.add(pod.id)
        return pod

    def stop_pod_sandbox(self, pod: api.PodSandbox) -> None:
        """Stop a pod and its containers. CRI-O raises PluginRefused when the plugin objects."""
        for container in self.store.containers_of(pod.id):
            if container.state != api.CONTAINER_STOPPED:
                self.stop_container(container)
        if not self._tells_of_pod(pod):
            return
        try:
            self._notify(api.STOP_POD_SANDBOX, pod)
        except StatusError as error:
            self._fail_on_crio(error)

    def remove_pod_sandbox(self, pod: api.PodSandbox) -> None:
        """Remove a stopped pod with its containers."""
        for container in self.store.containers_of(pod.id):
            self.remove_container(container)
        if self._tells_of_pod(pod):
            self._notify_leniently(api.REMOVE_POD_SANDBOX, pod)
        self._own_pods.discard(pod.id)
        del self.store.pods[pod.id]

    def _tells_of_pod(self, pod: api.PodSandbox) -> bool:
        return self.version.is_crio or pod.id in self._own_pods

    # Containers

    def create_container(
        self, pod: api.PodSandbox, container: api.Container, *, fails_later: bool = False
    ) -> api.Container:
        """Create a container; return it as adjusted, which is also how the store keeps it.

        Raises PluginRefused when the plugin refuses it; containerd then undoes with
        StopContainer and RemoveContainer, CRI-O does not. `fails_later` lets the creation fail
        after the plugin agreed (RuntimeError), as another plugin or a bad mount would.
        """
        created = api.Container()
        created.CopyFrom(container)
        if self.hide_hugepage_limits:
            created.linux.resources.ClearField("hugepage_limits")
        pristine = api.Container()
        pristine.CopyFrom(created)
        try:
            self._ask_to_create(pod, created)
        except StatusError as error:
            self._undo_creation(pod, pristine)
            raise PluginRefused(error.code, error.message) from error
        if fails_later:
            self._undo_creation(pod, pristine)
            raise RuntimeError(f"creation of {container.name} failed after the plugin agreed")
        created.state = api.CONTAINER_CREATED
        self.store.add_container(created)
        self._notify_leniently(api.POST_CREATE_CONTAINER, pod, created)
        return created

    def _ask_to_create(self, pod: api.PodSandbox, container: api.Container) -> None:
        if not self._subscribed(api.CREATE_CONTAINER):
            return
        request = api.CreateContainerRequest(pod=pod, container=container)
        response = self._call("CreateContainer", request, api.CreateContainerResponse)
        if response is None:
            return
        check_adjustment(response.adjust)
        check_updates(response.update, response.evict, forbidden_id=container.id)
        apply_adjustment(container, response.adjust, hugetlb=not self.hide_hugepage_limits)
        self._apply(response.update)
        if self._subscribed(api.VALIDATE_CONTAINER_ADJUSTMENT):
            self._validate(request, response)

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
            reason = verdict.reason if verdict is not None else "the validator gave no answer"
            raise StatusError(Code.UNKNOWN, reason)

    def _undo_creation(self, pod: api.PodSandbox, container: api.Container) -> None:
        if self.version.is_crio:
            return
        # The undo events show the spec from before the plugins, and no labels.
        container.ClearField("labels")
        self._tell_stopped(pod, container)
        self._notify_leniently(api.REMOVE_CONTAINER, pod, container)
        self._told_stopped.discard(container.id)

    def start_container(self, container: api.Container) -> None:
        """Start a created container; PluginRefused, after stopping it, when the plugin objects."""
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
        self._notify_leniently(api.POST_START_CONTAINER, pod, container)

    def update_container(
        self, container: api.Container, resources: api.LinuxResources
    ) -> api.LinuxResources:
        """Give a container other resources, as the kubelet asks; return what it was given.

        Zero and empty mean "as it is". Raises PluginRefused when the plugin objects.
        """
        pod = self.store.pod_of(container)
        given = api.LinuxResources()
        given.CopyFrom(resources)
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
                        overlay_resources(given, update.linux.resources)
                self._apply(u for u in response.update if u.container_id != container.id)
        overlay_resources(container.linux.resources, given)
        self._notify_leniently(api.POST_UPDATE_CONTAINER, pod, container)
        return given

    def stop_container(self, container: api.Container, *, exited: bool = True) -> None:
        """End a container; without `exited` the event shows the state as containerd 2.3 does."""
        container.state = api.CONTAINER_STOPPED
        container.pid = 0
        shown = api.Container()
        shown.CopyFrom(container)
        if not exited:
            shown.state = api.CONTAINER_UNKNOWN
        self._tell_stopped(self.store.pod_of(container), shown)

    def _tell_stopped(self, pod: api.PodSandbox, container: api.Container) -> None:
        if container.id in self._told_stopped:
            return
        self._told_stopped.add(container.id)
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
        """Remove a container; the plugin is told that it ended, if it was not told before."""
        pod = self.store.pod_of(container)
        if container.id not in self._silent:
            container.state = api.CONTAINER_STOPPED
            self._tell_stopped(pod, container)
            self._notify_leniently(api.REMOVE_CONTAINER, pod, container)
        self._told_stopped.discard(container.id)
        self.store.drop_container(container.id)

    def _notify_leniently(
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
