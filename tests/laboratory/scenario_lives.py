"""Random lives of a host, from seeds, played by `simulate` and by a plugin process.

    python -m tests.laboratory.scenario_lives 1-120

plays the lives of these seeds under two policies in both scopes, one after the other, and prints
those in which the two differ. Each takes a second. On a machine where the plugin gets no processor
for two seconds its failure is such a difference, too.
"""

import argparse
import random
from collections.abc import Iterable, Iterator
from itertools import product

from nri_numamem.numa import NodeSet
from tests.cli.simulate.scenarios import Document, admit, container, document, played, pod, removal
from tests.laboratory.over_nri import compare_over_nri

POLICIES = ("best-effort", "restricted")
SCOPES = ("container", "pod")
_ANNOTATION = "memory-policy.numamem.io"
_MODES = ("interleave", "weighted-interleave", "bind", "preferred", "preferred-many", "local")
_EVEN = "interleave:2"


def random_life(scope: str, policy: str, seed: int) -> Document:
    """Return the scenario of a seed: 30 pods that come and go, and retries of refused ones."""
    settings: Document = {"topologyManagerScope": scope, "topologyManagerPolicy": policy}
    # Numbers of its own, so that known seeds go on to play the same lives.
    own = random.Random(f"policies {seed}")
    if seed % 2:
        settings["memoryPolicy"] = _random_policies(own)
    chance = random.Random(seed)
    uids = [f"u{number}" for number in range(30)]
    pods, steps = [], []
    for uid in uids:
        names = [f"c{i}" for i in range(chance.randint(1, 3))]
        made = [
            container(n, f"{chance.randint(1, 60) * 128}Mi", f"{chance.randint(0, 9) * 32}Mi")
            for n in names
        ]
        pods.append(_annotated(own, pod(uid, *made[:1], init=made[1:]), names))
        steps.append(admit(uid))
        if chance.random() < 0.7:
            gone = chance.choice(uids[: len(pods)])
            steps.append(removal(gone))
            steps += [admit(uid)] if chance.random() < 0.5 else [{"retry": {}}]
    steps.append({"retry": {"pod": uids[-1]}})
    return document(steps, pods, settings=settings)


def _random_policies(chance: random.Random) -> Document:
    modes = chance.sample(_MODES, 3)
    default = {"default": chance.choice(modes)} if chance.random() < 0.5 else {}
    action = chance.choice(("Ignore", "Ignore", "Reject"))
    found = {"modes": modes, "defaults": default, "onUnsupported": action}
    least = chance.choice(("0", "256Mi", "1Gi"))
    return {**found, "maxNodes": chance.choice((0, 2)), "minPerNode": least}


def _annotated(chance: random.Random, made: Document, names: list[str]) -> Document:
    """Return the pod, half of the time with annotations for memory policies."""
    annotations = {}
    if chance.random() < 0.4:
        annotations[_ANNOTATION] = chance.choice((*_MODES, _EVEN, _EVEN))
    if chance.random() < 0.2:
        annotations[f"{_ANNOTATION}/container.{chance.choice(names)}"] = chance.choice(_MODES)
    return {**made, "metadata": {**made["metadata"], "annotations": annotations}}


def differences(seeds: Iterable[int]) -> Iterator[str]:
    """Yield one line for each difference in the lives of these seeds."""
    for seed, policy, scope in product(seeds, POLICIES, SCOPES):
        scenario, outcomes = played(random_life(scope, policy, seed))
        for line in compare_over_nri(scenario, outcomes, f"life {seed}"):
            yield f"seed {seed}, {policy}, {scope} scope: {line}"


def main() -> None:
    """Print the differences, and their number."""
    parser = argparse.ArgumentParser(description="Random lives of simulate against the plugin.")
    parser.add_argument("seeds", type=NodeSet.parse, help="seeds, such as 1-120")
    count = 0
    for line in differences(parser.parse_args().seeds):
        print(line, flush=True)
        count += 1
    print(f"{count} differences")


if __name__ == "__main__":
    main()
