"""The normal operation of a node: pods start, containers are created and end, pods end.

Each step acts as the kubelet and the runtime do. Without a plugin, or when its reply was lost,
containers run unchanged.
"""

import random
from collections.abc import Callable

from nri_numamem.memorymanager import QosClass
from nri_numamem.numa import NodeSet
from tests.faults.failure import CertainFailure
from tests.faults.host import GI, MI, PAGE_SIZES, movable
from tests.faults.life import Life
from tests.faults.memory_policies import REJECTED, random_annotations
from tests.faults.node import MEMORY_LOW, Container, Pod, Spec, random_specs
from tests.faults.policy_verdict import check_policy, check_policy_refusal
from tests.faults.verdict import check_refusal
from tests.laboratory import api_pb2 as api
from tests.laboratory import objects

Step = Callable[[Life, random.Random], bool]
"""Does something, or returns False because it is not possible now."""

_MOST_PODS = 16


def start_pod(life: Life, rng: random.Random) -> bool:
    """Start a pod; sometimes an earlier pod under its old uid."""
    if len(life.node.running()) >= _MOST_PODS:
        return False
    number = life.count("pods")
    is_guaranteed = rng.random() < 0.8
    qos = QosClass.GUARANTEED if is_guaranteed else QosClass.BURSTABLE
    uid, attempt, name = None, 0, f"pod-{number}"
    if life.ended_names and rng.random() < 0.2:
        name, uid = rng.choice(sorted(life.ended_names.items()))
        attempt, qos, is_guaranteed = number, QosClass.GUARANTEED, True
        if uid in life.unreported_pods or any(pod.uid == uid for pod in life.node.running()):
            return False
    specs = random_specs(rng, life.host.machine, is_guaranteed=is_guaranteed)
    inits = [spec.memory_bytes for spec in specs if spec.is_init]
    apps = sum(spec.memory_bytes for spec in specs if not spec.is_init)
    # Numbers of its own, so that known seeds go on to play the same lives.
    own = random.Random(f"annotations {life.seed} {number}")
    message = objects.pod(
        name,
        uid=uid,
        qos=qos,
        memory_limit_bytes=max([apps, *inits]),
        attempt=attempt,
        annotations=random_annotations(own, tuple(spec.name for spec in specs)),
    )
    pod = Pod(message, qos, specs)
    life.host.make_cgroup(message, dict.fromkeys(PAGE_SIZES, 0) | dict(pod.hugepages))
    reply = life.call("RunPodSandbox", message)
    sizes = ", ".join(f"{spec.name} {spec.memory_bytes // MI}Mi" for spec in specs)
    life.note(f"{qos} {name} starts: {sizes}{life.outcome(reply)}")
    if reply.runtime_died:
        life.host.drop_cgroup(message)
        return True
    life.node.pods[message.id] = pod
    for _ in range(rng.choice((0, 1, 2))):
        _continue_pod(life, rng, pod)
    return True


def continue_any_pod(life: Life, rng: random.Random) -> bool:
    """Do the next operation of a pod: end an init container, or create a container."""
    pods = [pod for pod in life.node.running() if pod.next_spec() or _init(pod)]
    if not pods:
        return False
    _continue_pod(life, rng, rng.choice(pods))
    return True


def _init(pod: Pod) -> Container | None:
    return next((c for c in pod.alive() if c.spec.is_init), None)


def _continue_pod(life: Life, rng: random.Random, pod: Pod) -> None:
    if life.runtime_is_down or pod.has_ended:
        return
    init, spec = _init(pod), pod.next_spec()
    if init is not None:
        pod.done.add(init.spec.name)
        stop(life, init)
    elif spec is not None:
        create(life, rng, pod, spec)


def create(life: Life, rng: random.Random, pod: Pod, spec: Spec) -> None:
    """Create a container; a pod is deleted after its third refusal."""
    is_new = spec.name not in pod.attempted_names
    message = life.node.new_message(pod, spec)
    is_preset = preset_nodes(life, pod, message)
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
    if rng.random() < 0.05 or (is_preset and not is_sure):
        life.note(f"{text} and fails later for another reason")
        pod.reservations.pop(spec.name, None)
        _undo(life, pod, pristine)
        return
    life.node.add(pod, spec, message).is_exempt |= is_preset


def preset_nodes(life: Life, pod: Pod, message: api.Container) -> bool:
    """Set the nodes of some containers as another plugin does, whatever has room there.

    Mostly it uses the lowest nodes, as this plugin does. It mixes no groups, because a plugin that
    starts then drops what ended containers keep. Return whether nodes are set.
    """
    own = random.Random(f"preset {life.seed} {message.id}")
    has_policy = any("numamem.io" in name for name in pod.message.annotations)
    is_possible = life.has_preset_nodes and life.connected and pod.is_guaranteed
    if not is_possible or has_policy or own.random() < 0.6:
        return False
    excluded = life.parameters.excluded(life.host.machine) | movable(life.host.machine)
    usable = [
        node.node_id
        for node in life.host.machine.nodes
        if node.memory_bytes and node.node_id not in excluded
    ]
    if own.random() < 0.2:
        own.shuffle(usable)
    nodes = NodeSet(usable[: own.choice((1, 1, 1, 2))])
    used = {one.mems for one in life.node.containers()}
    used |= {kept.mems for each in life.node.pods.values() for kept in each.reservations.values()}
    if any(nodes != each and not nodes.isdisjoint(each) for each in map(NodeSet.parse, used)):
        return False
    message.linux.resources.cpu.mems = str(nodes)
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


def stop_one(life: Life, rng: random.Random) -> bool:
    """Let a container crash; its pod starts it again later."""
    found = [c for c in life.node.containers() if not c.spec.is_init]
    if not found:
        return False
    stop(life, rng.choice(found))
    return True


def remove_one(life: Life, rng: random.Random) -> bool:
    """Remove an ended container, as the kubelet's garbage collection does."""
    if not life.node.ended:
        return False
    container = life.node.ended.pop(rng.randrange(len(life.node.ended)))
    reply = life.call("RemoveContainer", container.pod.message, container.message)
    life.note(f"{container.pod.message.name}/{container.spec.name} is removed{life.outcome(reply)}")
    return True


def resize(life: Life, rng: random.Random) -> bool:
    """Change the memory limit of a running container."""
    found = [c for c in life.node.containers() if not c.spec.is_init]
    if not found:
        return False
    container = rng.choice(found)
    before = container.memory_bytes
    wanted = max(MI, min(int(before * rng.choice((0.5, 0.8, 1.1, 1.5))), 16 * GI) // MI * MI)
    resources = api.LinuxResources(
        memory=api.LinuxMemory(limit=api.OptionalInt64(value=wanted)),
        cpu=api.LinuxCPU(shares=api.OptionalUInt64(), quota=api.OptionalInt64()),
    )
    pod = container.pod
    if MEMORY_LOW in container.message.linux.resources.unified:
        is_equal = random.Random(f"{container.message.id} {wanted}").random() < 0.6
        resources.unified[MEMORY_LOW] = str(wanted if is_equal else wanted // 2)
    # The kubelet gives the pod's cgroup more memory before the container.
    life.host.set_memory_limit(pod.message, pod.memory_limit_bytes + max(0, wanted - before))
    reply = life.call("UpdateContainer", pod.message, container.message, resources)
    name = f"{container.pod.message.name}/{container.spec.name}"
    life.note(f"{name} from {before // MI}Mi to {wanted // MI}Mi{life.outcome(reply)}")
    if reply.refusal is not None and "numamem: " not in reply.refusal:
        raise CertainFailure(f"unexpected text of a refused resize: {reply.refusal}")
    if reply.runtime_died or reply.refusal is not None:
        pod.has_failed_resize = True
        return True
    container.message.linux.resources.memory.limit.value = wanted
    for key, value in resources.unified.items():
        container.message.linux.resources.unified[key] = value
    container.pod.was_resized = True
    container.is_exempt |= wanted > before
    updates = list(api.UpdateContainerResponse.FromString(reply.payload).update)
    if not pod.is_guaranteed and any(u.container_id == container.message.id for u in updates):
        with_memory = (n.node_id for n in life.seen_machine.nodes if n.memory_bytes)
        life.node.update(updates)
        container.is_unpinned = container.mems == str(NodeSet(with_memory))
        return True
    life.node.update(updates)
    return True


def end_one(life: Life, rng: random.Random) -> bool:
    """End a pod regularly."""
    pods = life.node.running()
    if not pods:
        return False
    end(life, rng.choice(pods))
    return True


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


def end_unreported(life: Life, rng: random.Random) -> bool:
    """End a pod without any call; the runtime lists its sandbox until it is removed."""
    pods = life.node.running()
    if not pods:
        return False
    pod = rng.choice(pods)
    if rng.random() < 0.7:
        life.wait_for_sweep()
    for container in pod.alive():
        life.node.end(container, is_recorded=False)
    life.note(f"{pod.message.name} ends unreported")
    _mark_ended(life, pod, is_reported=False)
    return True


def _mark_ended(life: Life, pod: Pod, *, is_reported: bool) -> None:
    pod.has_ended = True
    pod.reservations.clear()
    if life.node.may_be_assigned(pod) and not is_reported:
        life.unreported_pods[pod.uid] = life.connected and pod.swept_by == life.plugin_starts
    life.host.drop_cgroup(pod.message)
    if pod.is_guaranteed:
        life.ended_names[pod.message.name] = pod.uid


def forget_one(life: Life, rng: random.Random) -> bool:
    """Remove the sandbox of a pod that ended without any call."""
    pods = [pod for pod in life.node.pods.values() if pod.has_ended]
    if not pods:
        return False
    life.forget(rng.choice(pods))
    return True


STEPS: tuple[tuple[Step, int], ...] = (
    (start_pod, 26),
    (continue_any_pod, 34),
    (stop_one, 9),
    (remove_one, 4),
    (resize, 8),
    (end_one, 9),
    (end_unreported, 5),
    (forget_one, 5),
)


def any_step(life: Life, rng: random.Random) -> None:
    """Do one possible step."""
    steps, weights = zip(*STEPS, strict=True)
    while True:
        (step,) = rng.choices(steps, weights)
        if step(life, rng):
            return
