"""When a life is judged, and what of the complaints counts then.

What the plugin has to notice by itself (another machine, pods that ended without a word, a disk
that has room again) it has some time for; everything else must be so between any two steps.
"""

import time

from tests.faults import checks
from tests.faults.failure import Failure
from tests.faults.ground import allocatable
from tests.faults.life import Life
from tests.faults.node import Container

# Sweeps and writes of the state file take less than a second; a busy machine needs more.
EVENTUALLY_S = 8.0


def check(life: Life) -> None:
    """Judge the books; nothing is judged while the plugin is away. Raises Failure."""
    if not life.notice() or life.ground.is_mute:
        return
    if life.overruns() > life.overruns_seen and life.wire is not None:
        life.tell("an answer was cut short: what it left is for the next Synchronize")
        life.wire.cut()
        life.bring_back()
    deadline = time.monotonic() + EVENTUALLY_S
    while True:
        now, later = _problems(life)
        if not life.notice():  # a machine that is too busy: what was judged is past
            life.bring_back()
        elif now or (later and time.monotonic() > deadline):
            raise Failure("\n".join([*now, *later]))
        elif not later:
            life.plugin.count_files()
            return
        time.sleep(0.05)


def _problems(life: Life) -> tuple[list[str], list[str]]:
    """Return what must not be, and what must not stay."""
    books = life.plugin.books()
    if books is None:
        return [], ["the plugin does not show its books"]
    records = life.plugin.journal.records
    excused = {r.get("container_id", "") for r in records[life.mark :] if "fits" in r["event"]}
    amounts = allocatable(life.seen_machine, life.setting.reserved)
    judge = checks.Judge(life.node, books, records, amounts)
    now = [*judge.running(), *judge.held()]
    if not life.ground.is_blind:
        now += [*judge.unpinned(excused), *judge.room(), *judge.excuses(), *judge.sums()]
    if now:
        now.append(f"books: {books}")
    unknown = {uid for uid, must in life.ghosts.items() if not must}
    later = [*judge.tables(), *judge.strangers(unknown)]
    if life.setting.keeps_state and not life.ground.is_full:
        later += judge.kept(life.ground.kept())
    return now, later


def check_refusal(life: Life, text: str, container: Container) -> None:
    """Judge the words of a refusal, and that no node had room. Raises Failure."""
    if "numamem: " not in text or not container.pod.is_guaranteed:
        raise Failure(f"refused with strange words: {text}")
    if life.ground.is_mute or life.setting.places_pods:
        return
    books = life.plugin.books() if life.connected else None
    free = books and checks.single_node_with_room(books, container, life.node)
    if free is not None:
        raise Failure(f"{text}: but node {free} has room: {books}")


def check_unpinned(life: Life) -> None:
    """Judge, right after a Synchronize, that no node has room for what runs without nodes."""
    if life.setting.places_pods:
        return
    books = life.plugin.books()
    for container in life.node.containers():
        if books is not None and container.pod.is_guaranteed and not container.mems:
            free = checks.single_node_with_room(books, container, life.node)
            if free is not None:
                name = f"{container.pod.message.name}/{container.spec.name}"
                raise Failure(f"{name} runs without nodes, and node {free} has room: {books}")
