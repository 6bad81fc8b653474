"""``nri-numamem claim``: a ResourceClaimTemplate, and the part of a pod that uses it.

It reads nothing of the host or the cluster. docs/claims.md describes resource claims.
"""

import argparse
import re
import sys
from collections.abc import Iterator

from nri_numamem.cli.output import print_document
from nri_numamem.config.errors import UsageError
from nri_numamem.export.claimtemplate import (
    DEVICES_MOST,
    GROUPS_MOST,
    IMAGE,
    NODES_MOST,
    Needs,
    claim_template,
    pod_with_claim,
)
from nri_numamem.memorymanager.blocks import page_bytes
from nri_numamem.numa.quantity import (
    EXACT_ONE,
    MEMORY,
    format_quantity,
    parse_exact,
    parse_quantity,
)

# Kubernetes' names for containers, and for classes.
_LABEL = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?", re.ASCII)
_SUBDOMAIN = re.compile(r"(?=.{1,253}$)[a-z0-9]([a-z0-9.-]*[a-z0-9])?", re.ASCII)

_HUGEPAGES = ("hugepages-1Gi", "hugepages-2Mi")

EXAMPLES = (
    "nri-numamem claim 40Gi --cpus 8 --hugepages-1Gi 4Gi --name upf",
    "nri-numamem claim 64Gi --cpus 16 --with gpu.nvidia.com",
    "nri-numamem claim 100Gi --cpus 16 --nodes 2",
)

_ABOUT_POD = f"""\
# Replace {IMAGE}. Requests and limits repeat the claim: the scheduler counts the Node's CPUs and
# memory by requests, and without them the pod is BestEffort. Leave out only what a driver maps by
# nodeAllocatableResources (KEP-5517), because it would count twice."""

_ABOUT_COUNTED_POD = f"""\
# Replace {IMAGE}. The claim counts for the Node, because the agent runs with --node-allocatable; so
# requests and limits do not repeat its memory and hugepages. memory.max is that of the claim."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    parser.add_argument("memory", metavar="MEMORY", help="the amount of memory, such as 40Gi")
    parser.add_argument("--cpus", metavar="N", help="whole CPUs, from dra-driver-cpu")
    for resource in _HUGEPAGES:
        page = resource.rpartition("-")[2]
        parser.add_argument(
            f"--{resource}", metavar="AMOUNT", dest=resource, help=f"hugepages of {page}"
        )
    parser.add_argument(
        "--with",
        action="append",
        default=[],
        metavar="CLASS",
        dest="devices",
        help="a device of this DeviceClass on the same NUMA node, such as a GPU; may be repeated",
    )
    parser.add_argument(
        "--nodes",
        type=int,
        choices=range(1, NODES_MOST + 1),
        default=1,
        metavar="N",
        help="divide all amounts among N NUMA nodes, on one socket if possible; the devices of a "
        "class go to them in turn (default: %(default)s)",
    )
    parser.add_argument(
        "--node-allocatable",
        action="store_true",
        help="for agents with --node-allocatable: requests and limits do not repeat memory and "
        "hugepages",
    )
    parser.add_argument(
        "--name", default="app", help="name of template, pod and container (default: %(default)s)"
    )
    parser.add_argument(
        "--output", choices=("yaml", "json"), default="yaml", help="format (default: %(default)s)"
    )


def main(args: argparse.Namespace) -> int:
    """Print both objects on standard output, and amounts that were rounded up on stderr."""
    if not _LABEL.fullmatch(args.name):
        raise UsageError(
            f"--name: {args.name!r} is not the name of a container; give up to 63 lower-case "
            "letters, digits and hyphens"
        )
    needs = _needs(args)
    for text in _rounded(needs):
        print(f"nri-numamem: {text}", file=sys.stderr)
    template = claim_template(args.name, needs)
    pod = pod_with_claim(args.name, needs, is_counted_for_node=args.node_allocatable)
    if args.output == "json":
        print_document({"apiVersion": "v1", "kind": "List", "items": [template, pod]}, "json")
        return 0
    print(_about_claim(needs))
    print_document(template, "yaml")
    print(f"---\n{_ABOUT_COUNTED_POD if args.node_allocatable else _ABOUT_POD}")
    print_document(pod, "yaml")
    return 0


def _needs(args: argparse.Namespace) -> Needs:
    """Return what the options demand; UsageError if no claim can have it."""
    amounts = {MEMORY: _amount("MEMORY", args.memory, MEMORY, args.nodes)}
    for resource in _HUGEPAGES:
        text = getattr(args, resource)
        if text is not None:
            amounts[resource] = _amount(f"--{resource}", text, resource, args.nodes)
    cpus = 0 if args.cpus is None else _cpus(args.cpus, args.nodes)
    for name in args.devices:
        if not _SUBDOMAIN.fullmatch(name):
            raise UsageError(
                f"--with: {name!r} is not the name of a DeviceClass; kubectl get deviceclass "
                "lists them"
            )
    needs = Needs(amounts, cpus, tuple(args.devices), args.nodes)
    if not needs.is_memory_only and args.nodes > GROUPS_MOST:
        raise UsageError(
            f"--nodes: at most {GROUPS_MOST} with CPUs, hugepages or devices, because the "
            f"scheduler tries each order of the NUMA nodes; give {GROUPS_MOST}, or memory only"
        )
    if needs.device_count > DEVICES_MOST:
        raise UsageError(
            f"--with: the claim has {needs.device_count} devices, and the scheduler allocates at "
            f"most {DEVICES_MOST}; leave out {needs.device_count - DEVICES_MOST}"
        )
    return needs


def _amount(place: str, text: str, resource: str, nodes: int) -> int:
    """Return the bytes of an amount; at least a page on each node."""
    try:
        size_bytes = parse_quantity(text)
    except ValueError as error:
        raise UsageError(f"{place}: {error}") from error
    page = page_bytes(resource)
    if size_bytes < page * nodes:
        where = f" on each of {nodes} NUMA nodes" if nodes > 1 else ""
        raise UsageError(
            f"{place}: {text} is less than a page of {format_quantity(page)}{where}; give at least "
            f"{format_quantity(page * nodes)}"
        )
    return size_bytes


def _cpus(text: str, nodes: int) -> int:
    try:
        cpus, rest = divmod(parse_exact(text), EXACT_ONE)
    except ValueError as error:
        raise UsageError(f"--cpus: {error}") from error
    if rest or cpus < 1:
        raise UsageError(f"--cpus: {text} is not a whole number of CPUs; give 1 or more")
    if cpus % nodes:
        raise UsageError(
            f"--cpus: {cpus} CPUs cannot be divided equally among {nodes} NUMA nodes; give "
            f"{cpus + nodes - cpus % nodes}"
        )
    return cpus


def _rounded(needs: Needs) -> Iterator[str]:
    """Yield a text for each amount that is not a whole number of pages on each node."""
    where = f" on each of {needs.nodes} NUMA nodes" if needs.nodes > 1 else ""
    for resource, part in needs.parts.items():
        given, rounded = needs.amounts[resource], part * needs.nodes
        if given != rounded:
            texts = (format_quantity(size) for size in (given, rounded))
            yield f"{resource}: {' is rounded up to '.join(texts)}, whole pages{where}"


def _about_claim(needs: Needs) -> str:
    """Return comments on the template."""
    if needs.nodes == 1:
        return "# The scheduler allocates everything on one NUMA node."
    text = (
        f"# The scheduler allocates {needs.nodes} empty NUMA nodes, on one socket if it has them."
    )
    if needs.is_memory_only:
        return text
    return (
        f"{text}\n# All memory is near or all is any: the last constraints demand one NUMA node "
        "for near and any,\n# which another one forbids."
    )
