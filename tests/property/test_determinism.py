"""The same seed gives the same bytes, whatever Python's hash seed."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = """
import runpy, sys
from random import Random
from nri_numamem.numa import Distances, Preferences
from nri_numamem.memorymanager import mark_reusable, remove_container
from nri_numamem.topologymanager import Topology, TopologyPolicy, admit
worlds = type("worlds", (), runpy.run_path(sys.argv[1]))
random = Random(7)
for _ in range(60):
    world = worlds.random_world(random, random.randint(1, 12))
    rows = worlds.random_distances(random, max(world) + 1)
    topology = Topology(random.choice(list(TopologyPolicy)), Preferences(Distances.of_rows(rows)))
    state = worlds.empty_state(world)
    for event in worlds.random_life(random, world, 20):
        verb, uid, name = event[:3]
        if verb == "allocate":
            got = admit(state, worlds.pod_with(uid, name, event[3]), name, topology)
            state = getattr(got, "accounting", state)
            print(got, state)
        else:
            undo = mark_reusable if verb == "mark_reusable" else remove_container
            state = undo(state, uid, name)
"""


def run(hash_seed: str) -> bytes:
    worlds = Path(__file__).parent / "worlds.py"
    environment = {**os.environ, "PYTHONHASHSEED": hash_seed}
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, str(worlds)],
        env=environment,
        capture_output=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout


@pytest.mark.parametrize("hash_seed", ["1", "2"])
def test_no_result_depends_on_hash_order(hash_seed: str) -> None:
    output = run(hash_seed)
    assert len(output) > 100_000
    assert output == run("0")
