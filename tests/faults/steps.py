"""What happens on a node day by day: pods start, containers come and go, pods end.

Each step is done as kubelet and runtime do it, whoever answers: without a plugin, or when its
reply was lost, containers run as they were asked for.
"""

import random
from collections.abc import Callable

from nri_numamem.engine.qos import QosClass
from nri_numamem.nri import api_pb2 as api
from nri_numamem.nri import runtime_objects as objects
from tests.faults.failure import Alarm
from tests.faults.ground import GI, MI
from tests.faults.judgement import check_refusal
from tests.faults.life import Life
from tests.faults.node import Container, Pod, Spec, random_specs

Step = Callable[[Life, random.Random], bool]
"""Does something, or returns False because there is nothing to do it to."""

_MOST_PODS = 16


def start_pod(life: Life, rng: random.Random) -> bool:
    """Start a pod; sometimes one that was there before comes back under its uid."""
    if len(life.node.running()) >= _MOST_PODS:
        return False
    number = life.count("pods")
    is_guaranteed = rng.random() < 0.8
    qos = QosClass.GUARANTEED if is_guaranteed else QosClass.BURSTABLE
    uid, attempt, name = None, 0, f"pod-{number}"
    if life.ended_names and rng.random() < 0.2:
        name, uid = rng.choice(sorted(life.ended_names.items()))
        attempt, qos, is_guaranteed = number, QosClass.GUARANTEED, True
        if uid in life.ghosts or any(pod.uid == uid for pod in life.node.running()):
            return False
    specs = random_specs(rng, life.ground.machine, is_guaranteed=is_guaranteed)
    inits = [spec.memory_bytes for spec in specs if spec.is_init]
    apps = sum(spec.memory_bytes for spec in specs if not spec.is_init)
    message = objects.pod(
        name, uid=uid, qos=qos, memory_limit_bytes=max([apps, *inits]), attempt=attempt
    )
    pod = Pod(message, qos, specs)
    life.ground.make_cgroup(message, pod.hugepages)
    answer = life.call("RunPodSandbox", message)
    sizes = ", ".join(f"{spec.name} {spec.memory_bytes // MI}Mi" for spec in specs)
    life.tell(f"{qos} {name} starts: {sizes}{life.fate(answer)}")
    if answer.is_dead:
        life.ground.drop_cgroup(message)
        return True
    life.node.pods[message.id] = pod
    for _ in range(rng.choice((0, 1, 2))):
        _go_on_with(life, rng, pod)
    return True


def go_on(life: Life, rng: random.Random) -> bool:
    """Do what is next in a pod: an init container ends, a container is created."""
    pods = [pod for pod in life.node.running() if pod.next_spec() or _init(pod)]
    if not pods:
        return False
    _go_on_with(life, rng, rng.choice(pods))
    return True


def _init(pod: Pod) -> Container | None:
    return next((c for c in pod.alive() if c.spec.is_init), None)


def _go_on_with(life: Life, rng: random.Random, pod: Pod) -> None:
    if life.is_down or pod.has_ended:
        return
    init, spec = _init(pod), pod.next_spec()
    if init is not None:
        pod.done.add(init.spec.name)
        stop(life, init)
    elif spec is not None:
        create(life, rng, pod, spec)


def create(life: Life, rng: random.Random, pod: Pod, spec: Spec) -> None:
    """Create a container; a pod that is refused for the third time is deleted."""
    message = life.node.new_message(pod, spec)
    answer = life.call("CreateContainer", pod.message, message)
    text = f"{pod.message.name}/{spec.name} is created"
    if answer.refusal is not None:
        life.tell(f"{text}: refused")
        check_refusal(life, answer.refusal, Container(spec, pod, message))
        _undo(life, pod, message)
        pod.refusals += 1
        if pod.refusals > 2:
            end(life, pod)
        return
    if answer.is_dead:
        life.tell(f"{text}{life.fate(answer)}")
        return
    reply = api.CreateContainerResponse.FromString(answer.payload)
    pristine = api.Container()
    pristine.CopyFrom(message)
    life.node.adjust(message, reply)
    life.node.update(list(reply.update))
    life.tell(f"{text} on {message.linux.resources.cpu.mems or 'no nodes'}{life.fate(answer)}")
    if rng.random() < 0.05:
        life.tell(f"{text} in vain: something else failed")
        pod.held.pop(spec.name, None)
        _undo(life, pod, pristine)
        return
    life.node.add(pod, spec, message)


def _undo(life: Life, pod: Pod, message: api.Container) -> None:
    """Tell what containerd tells of a creation that failed; CRI-O says nothing."""
    if life.node.habits.is_crio:
        return
    message.ClearField("labels")
    life.call("StopContainer", pod.message, message)
    life.call("RemoveContainer", pod.message, message)


def stop(life: Life, container: Container) -> None:
    """Let a container end."""
    pod = container.pod
    shown = api.Container()
    shown.CopyFrom(container.message)
    shown.state = api.CONTAINER_STOPPED
    answer = life.call("StopContainer", pod.message, shown)
    # Afterwards: the process that must keep its place may have died over it.
    life.node.end(container, on_books=life.is_on_books(container))
    life.tell(f"{pod.message.name}/{container.spec.name} ends{life.fate(answer)}")


def stop_one(life: Life, rng: random.Random) -> bool:
    """Let a container crash; its pod starts it again some time."""
    found = [c for c in life.node.containers() if not c.spec.is_init]
    if not found:
        return False
    stop(life, rng.choice(found))
    return True


def remove_one(life: Life, rng: random.Random) -> bool:
    """Remove a container that has ended, as the kubelet's garbage collection does."""
    if not life.node.old:
        return False
    container = life.node.old.pop(rng.randrange(len(life.node.old)))
    answer = life.call("RemoveContainer", container.pod.message, container.message)
    life.tell(f"{container.pod.message.name}/{container.spec.name} is removed{life.fate(answer)}")
    return True


def resize(life: Life, rng: random.Random) -> bool:
    """Give a container another memory limit while it runs."""
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
    answer = life.call("UpdateContainer", container.pod.message, container.message, resources)
    name = f"{container.pod.message.name}/{container.spec.name}"
    life.tell(f"{name} from {before // MI}Mi to {wanted // MI}Mi{life.fate(answer)}")
    if answer.refusal is not None and "numamem: " not in answer.refusal:
        raise Alarm(f"resize refused with strange words: {answer.refusal}")
    if answer.is_dead or answer.refusal is not None:
        return True
    container.message.linux.resources.memory.limit.value = wanted
    container.pod.was_resized = True
    container.is_excused |= wanted > before
    life.node.update(list(api.UpdateContainerResponse.FromString(answer.payload).update))
    return True


def end_one(life: Life, rng: random.Random) -> bool:
    """End a pod as it should be."""
    pods = life.node.running()
    if not pods:
        return False
    end(life, rng.choice(pods))
    return True


def end(life: Life, pod: Pod) -> None:
    """Stop and remove a pod; of those older than itself containerd tells nothing."""
    for container in pod.alive():
        if not life.is_down:
            stop(life, container)
    if life.is_down:
        return
    is_told = pod.is_own or life.node.habits.is_crio
    life.tell(f"{pod.message.name} ends{'' if is_told else ', and nobody is told'}")
    if is_told:
        answer = life.call("StopPodSandbox", pod.message)
        if answer.is_dead:
            return
    _gone(life, pod, is_told=is_told)
    life.node.old = [c for c in life.node.old if c.pod is not pod]
    for container in pod.containers.values():
        if is_told:
            life.call("RemoveContainer", pod.message, container.message)
    if is_told:
        life.call("RemovePodSandbox", pod.message)
    life.forget(pod)


def end_silently(life: Life, rng: random.Random) -> bool:
    """End a pod without a word; its sandbox stays listed until the runtime forgets it."""
    pods = life.node.running()
    if not pods:
        return False
    pod = rng.choice(pods)
    if rng.random() < 0.7:
        life.let_sweep()
    for container in pod.alive():
        life.node.end(container, on_books=False)
    life.tell(f"{pod.message.name} ends without a word")
    _gone(life, pod, is_told=False)
    return True


def _gone(life: Life, pod: Pod, *, is_told: bool) -> None:
    pod.has_ended = True
    pod.held.clear()
    if pod.is_guaranteed and not is_told:
        life.ghosts[pod.uid] = life.connected and pod.swept_by == life.era
    life.ground.drop_cgroup(pod.message)
    if pod.is_guaranteed:
        life.ended_names[pod.message.name] = pod.uid


def forget_one(life: Life, rng: random.Random) -> bool:
    """Let the runtime forget a sandbox that ended without a word."""
    pods = [pod for pod in life.node.pods.values() if pod.has_ended]
    if not pods:
        return False
    life.forget(rng.choice(pods))
    return True


STEPS: tuple[tuple[Step, int], ...] = (
    (start_pod, 26),
    (go_on, 34),
    (stop_one, 9),
    (remove_one, 4),
    (resize, 8),
    (end_one, 9),
    (end_silently, 5),
    (forget_one, 5),
)


def any_step(life: Life, rng: random.Random) -> None:
    """Do one step that is possible."""
    steps, weights = zip(*STEPS, strict=True)
    while True:
        (step,) = rng.choices(steps, weights)
        if step(life, rng):
            return
