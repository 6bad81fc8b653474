"""A pod that does not exist yet: its request from a manifest or amounts, and the plan for it."""

import argparse
from collections.abc import Mapping
from pathlib import Path

from nri_numamem.cli.earmark import Target, selected_pods
from nri_numamem.cli.simulate import host_now, workloads_in
from nri_numamem.cli.simulate.workloads import Host, Trial, try_workloads
from nri_numamem.config.documents import read_file
from nri_numamem.config.errors import UsageError
from nri_numamem.engine.core.earmarks import Beneficiary
from nri_numamem.kubelet.workload import Workload
from nri_numamem.memorymanager.pod import pod_request
from nri_numamem.memorymanager.rebalance import Rebalancing
from nri_numamem.numa import NodeSet
from nri_numamem.numa.quantity import MEMORY, is_memory_resource, parse_quantity

_NAME = "wanted"


def wanted_pod(args: argparse.Namespace) -> Target:
    """Return the pod of ``--for`` with its plan; raise UsageError.

    Its room is for the pods with its labels, because it has no uid yet.
    """
    is_file = Path(args.wanted).exists() or "=" not in args.wanted
    workload = _in_file(args) if is_file else _of_amounts(args)
    beneficiary = _beneficiary(workload)
    host, _title = host_now(args)
    result = try_workloads(host, [workload], ())
    (trial,) = result.trials
    if trial.claims:
        raise UsageError(f"{args.wanted}: pods with claims go where the scheduler says")
    plan = trial.plan or Rebalancing(nodes=_nodes(trial), fits_now=trial.fits)
    amounts = _amounts(args, host, trial)
    return Target(beneficiary, plan.nodes, amounts, plan, dict(result.names))


def _in_file(args: argparse.Namespace) -> Workload:
    if args.label or args.namespace:
        raise UsageError("--label, --namespace: only with amounts; the file has its own")
    content = read_file(Path(args.wanted))
    found = workloads_in(content, args.wanted)
    if len(found) != 1:
        raise UsageError(f"{args.wanted}: {len(found)} objects that make pods; give one")
    return found[0]


def _of_amounts(args: argparse.Namespace) -> Workload:
    """Return a Guaranteed pod with one container; other errors are those of a manifest."""
    amounts: dict[str, object] = {"cpu": "1"}
    for part in args.wanted.split(","):
        name, _, value = part.partition("=")
        if not is_memory_resource(name) or not value:
            text = f"{part[:80]!r} is not RESOURCE=AMOUNT; write such as memory=90Gi"
            raise UsageError(f"--for: {text}")
        try:
            amounts[name] = str(parse_quantity(value))
        except ValueError as error:
            raise UsageError(f"--for: {name}: {error}") from error
    if MEMORY not in amounts:
        raise UsageError("--for: memory is missing; write such as memory=90Gi,hugepages-1Gi=4Gi")
    resources = {"limits": amounts, "requests": amounts}
    container = {"name": "main", "image": "none", "resources": resources}
    labels = selected_pods(args).beneficiary.labels
    manifest = {
        "metadata": {"name": _NAME, "namespace": args.namespace, "labels": labels},
        "spec": {"containers": [container]},
    }
    return Workload("Pod", args.namespace, _NAME, 1, manifest, ())


def _beneficiary(workload: Workload) -> Beneficiary:
    metadata = workload.manifest.get("metadata")
    labels = metadata.get("labels") if isinstance(metadata, Mapping) else None
    if not isinstance(labels, Mapping) or not labels:
        text = "its pods have no labels, by which the plugin knows for whom the room is; add some"
        raise UsageError(f"{workload.kind} {workload.name}: {text}")
    return Beneficiary(
        workload.namespace, labels={str(key): str(value) for key, value in labels.items()}
    )


def _nodes(trial: Trial) -> NodeSet:
    """Return the nodes of the first pod that fits."""
    texts = [text for _name, mems in trial.placed[:1] for text in mems.values() if text]
    return NodeSet(node_id for text in texts for node_id in NodeSet.parse(text))


def _amounts(args: argparse.Namespace, host: Host, trial: Trial) -> Mapping[str, int]:
    """Return what has to be free on the nodes of the plan."""
    pod = trial.pod.pod
    if host.context.places_pods or len(pod.containers) == 1:
        return pod_request(pod)
    if trial.fits:
        return {}
    raise UsageError(
        f"{args.wanted}: its containers are placed one by one; give one of them, such as "
        "--for memory=90Gi --namespace ml --label app=train"
    )
