"""The normal operation of a node: pods start, containers are created and end, pods end.

Each step acts as the kubelet and the runtime do. Without a plugin, or when its reply was lost,
containers run unchanged.
"""

from nri_numamem.numa import NodeSet
from tests.faults.failure import CertainFailure
from tests.faults.life import Life
from tests.faults.memory_policies import REJECTED
from tests.faults.node import MEMORY_LOW, Container, Pod
from tests.faults.partitions import nodes_of
from tests.faults.policy_verdict import check_policy, check_policy_refusal
from tests.faults.verdict import check_refusal
from tests.laboratory import api_pb2 as api
from tests.laboratory import objects
from tests.sequences.machine import MI, PAGE_SIZES
from tests.sequences.operations import (
    CreateNext,
    EndContainer,
    EndPod,
    Fault,
    ForgetPod,
    Operation,
    PodSpec,
    RemoveContainer,
    Resize,
    Spec,
    StartPod,
)
from tests.sequences.settings import NAMESPACE, namespace_of


def any_step(life: Life) -> None:
    """Play the next possible operation of the life."""
    while not _play_next(life):
        pass


def create_any(life: Life) -> None:
    """Play the operations of the life up to the next start of a pod or creation of a container."""
    while not _play_next(life, StartPod, CreateNext):
        pass


def _play_next(life: Life, *kinds: type[Operation]) -> bool:
    """Play the next operation, and return whether it was possible and of one of the kinds."""
    step = next(life.steps)
    is_done = not isinstance(step, Fault) and play_operation(life, step)
    return is_done and (not kinds or isinstance(step, kinds))


def play_operation(life: Life, operation: Operation) -> bool:
    """Play an operation; return False if it is not possible."""
    match operation:
        case StartPod(spec):
            return _start_pod(life, spec)
        case ForgetPod(key):
            pods = [pod for pod in life.node.pods.values() if pod.has_ended and pod.key == key]
            for pod in pods:
                life.forget(pod)
            return bool(pods)
        case RemoveContainer(key, name):
            return _remove_container(life, key, name)
    running = {pod.key: pod for pod in life.node.running()}
    return operation.pod in running and _play_in(life, running[operation.pod], operation)


def _play_in(life: Life, pod: Pod, operation: CreateNext | EndContainer | Resize | EndPod) -> bool:
    match operation:
        case CreateNext():
            return _continue_pod(life, pod, operation)
        case EndPod(is_reported=True):
            end(life, pod)
        case EndPod(is_swept=is_swept):
            _end_unreported(life, pod, is_swept=is_swept)
        case EndContainer(container=name) | Resize(container=name):
            container = pod.containers.get(name)
            if container is None or not container.is_alive:
                return False
            if isinstance(operation, Resize):
                resize(life, container, operation)
            else:
                stop(life, container)
    return True


def _start_pod(life: Life, spec: PodSpec) -> bool:
    """Start a pod; sometimes an earlier pod under its old uid."""
    namespace = namespace_of(spec.name, life.parameters.settings)
    message = objects.pod(
        spec.name,
        namespace=namespace,
        qos=spec.qos,
        memory_limit_bytes=spec.memory_limit_bytes or 0,
        attempt=spec.attempt,
        annotations=spec.annotations,
    )
    uid = message.uid
    if uid in life.unreported_pods or any(pod.uid == uid for pod in life.node.running()):
        return False
    nodes = nodes_of(life.parameters.settings, life.host.machine, namespace)
    pod = Pod(message, spec.qos, spec.specs, spec.key, *nodes)
    life.host.make_cgroup(message, dict.fromkeys(PAGE_SIZES, 0) | pod.hugepages)
    reply = life.call("RunPodSandbox", message)
    sizes = ", ".join(f"{each.name} {each.memory_bytes // MI}Mi" for each in spec.specs)
    where = "" if namespace == NAMESPACE else f" of {namespace}"
    life.note(f"{spec.qos} {spec.name}{where} starts: {sizes}{life.outcome(reply)}")
    if reply.runtime_died:
        life.host.drop_cgroup(message)
    else:
        life.node.pods[message.id] = pod
    return True


def _init(pod: Pod) -> Container | None:
    return next((c for c in pod.alive() if c.spec.is_init), None)


def _continue_pod(life: Life, pod: Pod, operation: CreateNext) -> bool:
    """Do the next operation of a pod: end an init container, or create a container."""
    if life.runtime_is_down:
        return False
    init, spec = _init(pod), pod.next_spec()
    if init is not None:
        pod.done.add(init.spec.name)
        stop(life, init)
    elif spec is not None:
        create(life, pod, spec, operation)
    return init is not None or spec is not None


def create(life: Life, pod: Pod, spec: Spec, operation: CreateNext) -> None:
    """Create a container; a pod is deleted after its third refusal."""
    is_new = spec.name not in pod.attempted_names
    message = life.node.new_message(pod, spec)
    is_preset = _preset_nodes(life, pod.uid, operation.preset, message)
    was_connected, timeouts = life.check_connection(), life.timeouts()
    reply = life.call("CreateContainer", pod.message, message)
    text = f"{pod.message.name}/{spec.name} is created"
    if reply.refusal is not None:
        life.note(f"{text}: refused")
        if REJECTED in reply.refusal:
            check_policy_refusal(life, Container(spec, pod, message), is_new=is_new)
        else:
            check_refusal(life, reply.refusal, Container(spec, pod, message))
        _undo(life, pod, message)
        pod.refusals += 1
        if pod.refusals > 2:
            end(life, pod)
        return
    if reply.runtime_died:
        life.note(f"{text}{life.outcome(reply)}")
        return
    response = api.CreateContainerResponse.FromString(reply.payload)
    pristine = api.Container()
    pristine.CopyFrom(message)
    life.node.adjust(message, response)
    is_sure = was_connected and life.connected and life.timeouts() == timeouts
    check_policy(life, Container(spec, pod, message), response, is_sure=is_sure)
    life.node.update(list(response.update))
    life.note(f"{text} on {message.linux.resources.cpu.mems or 'no nodes'}{life.outcome(reply)}")
    # A plugin that missed a container with its nodes keeps nothing for it.
    if operation.fails_later or (is_preset and not is_sure):
        life.note(f"{text} and fails later for another reason")
        pod.reservations.pop(spec.name, None)
        _undo(life, pod, pristine)
        return
    container = life.node.add(pod, spec, message)
    container.is_exempt |= is_preset
    container.is_sure = is_sure and not life.host.cannot_log and not life.host.may_lose_records


def _preset_nodes(life: Life, uid: str, nodes: NodeSet, message: api.Container) -> bool:
    """Set the nodes of a container as another plugin does; return whether they are set.

    It mixes no groups, because a plugin that starts then drops what ended containers keep.
    """
    used = {c.mems for c in life.node.containers() if life.node.may_be_assigned(c.pod)}
    used |= {kept.mems for each in life.node.pods.values() for kept in each.reservations.values()}
    if not life.connected or any(
        nodes != each and not nodes.isdisjoint(each) for each in map(NodeSet.parse, used)
    ):
        return False
    message.linux.resources.cpu.mems = str(nodes)
    life.node.preset_nodes[uid] = life.node.preset_nodes.get(uid, NodeSet()) | nodes
    return bool(nodes)


def _undo(life: Life, pod: Pod, message: api.Container) -> None:
    """Send what containerd sends after a failed creation; CRI-O sends nothing."""
    if life.node.traits.is_crio:
        return
    message.ClearField("labels")
    life.call("StopContainer", pod.message, message)
    life.call("RemoveContainer", pod.message, message)


def stop(life: Life, container: Container) -> None:
    """End a container."""
    pod = container.pod
    shown = api.Container()
    shown.CopyFrom(container.message)
    shown.state = api.CONTAINER_STOPPED
    timeouts = life.timeouts()
    reply = life.call("StopContainer", pod.message, shown)
    is_lost = life.timeouts() > timeouts
    pod.has_lost_end |= is_lost
    # After the call, during which the process that keeps the reservation may have died.
    life.node.end(container, is_recorded=life.is_recorded(container), is_end_lost=is_lost)
    life.note(f"{pod.message.name}/{container.spec.name} ends{life.outcome(reply)}")


def _remove_container(life: Life, key: str, name: str) -> bool:
    """Remove an ended container, as the kubelet's garbage collection does."""
    found = (c for c in life.node.ended if c.pod.key == key and c.spec.name == name)
    container = next(found, None)
    if container is None:
        return False
    life.node.ended.remove(container)
    reply = life.call("RemoveContainer", container.pod.message, container.message)
    life.note(f"{container.pod.message.name}/{name} is removed{life.outcome(reply)}")
    return True


def resize(life: Life, container: Container, operation: Resize) -> None:
    """Change the memory limit of a running container."""
    before, wanted = container.memory_bytes, operation.memory_bytes
    resources = api.LinuxResources(
        memory=api.LinuxMemory(limit=api.OptionalInt64(value=wanted)),
        cpu=api.LinuxCPU(shares=api.OptionalUInt64(), quota=api.OptionalInt64()),
    )
    pod = container.pod
    if MEMORY_LOW in container.message.linux.resources.unified:
        resources.unified[MEMORY_LOW] = str(operation.memory_low_bytes)
    # The kubelet gives the pod's cgroup more memory before the container.
    life.host.set_memory_limit(pod.message, pod.memory_limit_bytes + max(0, wanted - before))
    reply = life.call("UpdateContainer", pod.message, container.message, resources)
    name = f"{container.pod.message.name}/{container.spec.name}"
    life.note(f"{name} from {before // MI}Mi to {wanted // MI}Mi{life.outcome(reply)}")
    if reply.refusal is not None and "numamem: " not in reply.refusal:
        raise CertainFailure(f"unexpected text of a refused resize: {reply.refusal}")
    if reply.runtime_died or reply.refusal is not None:
        pod.has_failed_resize = True
        return
    container.message.linux.resources.memory.limit.value = wanted
    for key, value in resources.unified.items():
        container.message.linux.resources.unified[key] = value
    container.pod.was_resized = True
    container.is_exempt |= wanted > before
    updates = list(api.UpdateContainerResponse.FromString(reply.payload).update)
    if not pod.is_guaranteed and any(u.container_id == container.message.id for u in updates):
        with_memory = NodeSet(n.node_id for n in life.seen_machine.nodes if n.memory_bytes)
        life.node.update(updates)
        container.is_unpinned = container.mems == str(pod.unpinned_nodes or with_memory)
        return
    life.node.update(updates)


def end(life: Life, pod: Pod) -> None:
    """Stop and remove a pod; containerd does not report pods that are older than its process."""
    for container in pod.alive():
        if not life.runtime_is_down:
            stop(life, container)
    if life.runtime_is_down:
        return
    is_reported = pod.is_of_current_runtime or life.node.traits.is_crio
    life.note(f"{pod.message.name} ends{'' if is_reported else ', unreported'}")
    if is_reported:
        reply = life.call("StopPodSandbox", pod.message)
        if reply.runtime_died:
            # The plugin may have received the request, and has then released the pod.
            pod.reservations.clear()
            return
    _mark_ended(life, pod, is_reported=is_reported)
    life.node.ended = [c for c in life.node.ended if c.pod is not pod]
    for container in pod.containers.values():
        if is_reported:
            life.call("RemoveContainer", pod.message, container.message)
    if is_reported:
        life.call("RemovePodSandbox", pod.message)
    life.forget(pod)


def _end_unreported(life: Life, pod: Pod, *, is_swept: bool) -> None:
    """End a pod without any call; the runtime lists its sandbox until it is removed."""
    if is_swept:
        life.wait_for_sweep()
    for container in pod.alive():
        life.node.end(container, is_recorded=False)
    life.note(f"{pod.message.name} ends unreported")
    _mark_ended(life, pod, is_reported=False)


def _mark_ended(life: Life, pod: Pod, *, is_reported: bool) -> None:
    pod.has_ended = True
    pod.reservations.clear()
    if life.node.may_be_assigned(pod) and not is_reported:
        life.unreported_pods[pod.uid] = life.connected and pod.swept_by == life.plugin_starts
    life.host.drop_cgroup(pod.message)
