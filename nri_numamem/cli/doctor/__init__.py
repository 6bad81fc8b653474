"""``nri-numamem doctor``: checks the host for problems that keep the plugin from working.

Each finding says what was checked; a problem has a remedy. The command changes nothing and does not
connect to the runtime. With a kubeconfig it also reads what resource claims need at the API server.
"""

import argparse
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, replace
from pathlib import Path

from nri_numamem.cli.doctor.claims import check_claims
from nri_numamem.cli.doctor.findings import Finding, Verdict, status_of
from nri_numamem.cli.doctor.machine import (
    check_cgroups,
    check_configuration,
    check_excluded_nodes,
    check_hugepages,
    check_memory_policies,
    check_nodes,
)
from nri_numamem.cli.doctor.plugin import check_instance
from nri_numamem.cli.doctor.runtime import check_kubelet, check_runtimes
from nri_numamem.cli.doctor.unit import check_network_hints, check_service
from nri_numamem.cli.host_arguments import (
    add_config_argument,
    add_host_argument,
    add_node_name_argument,
    add_state_file_argument,
    node_name_of,
)
from nri_numamem.cli.host_files import Host
from nri_numamem.cli.output import DOCUMENT_VERSION, add_output_argument, print_document
from nri_numamem.config.settings import Settings
from nri_numamem.engine.core.text import escape

_STYLES = {Verdict.OK: "green", Verdict.WARN: "yellow", Verdict.FAIL: "bold red"}
_SHOWN = {Verdict.FAIL: "FAIL", Verdict.UNKNOWN: "?"}


# What fails comes first.
_ORDER = (Verdict.FAIL, Verdict.WARN, Verdict.UNKNOWN, Verdict.OK)

EXAMPLES = (
    "nri-numamem doctor",
    "nri-numamem doctor --root /host --output json",
    "nri-numamem doctor --kubeconfig ~/.kube/config",
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    add_host_argument(parser)
    add_state_file_argument(parser)
    add_config_argument(parser)
    parser.add_argument(
        "--kubeconfig",
        type=Path,
        metavar="FILE",
        help="also check what resource claims need at the API server (default: none)",
    )
    add_node_name_argument(parser)
    add_output_argument(parser)
    parser.epilog = (
        "Verdicts: ok, warn, FAIL, and ? if a check was not possible. Exit status: 0 without "
        "problems, 1 with warnings, 2 if a check failed."
    )


def main(args: argparse.Namespace) -> int:
    """Run all checks and print their findings; return the exit status."""
    # A relative path is one of this process.
    state_file = args.state_file and str(Path(args.state_file).absolute())
    examined = [*examine(Host(args.root), args.config, state_file)]
    if args.kubeconfig is not None:
        from nri_numamem.cli.doctor import api_server  # noqa: PLC0415 - only with this option

        name = node_name_of(args.node_name)
        send, expected = api_server.client(args.kubeconfig), api_server.expected_slice(args, name)
        examined += api_server.check_api_server(send, name, expected)
    findings = tuple(sorted(examined, key=lambda finding: _ORDER.index(finding.verdict)))
    if args.output != "table":
        documents = [{**asdict(each), "verdict": str(each.verdict)} for each in findings]
        print_document({"version": DOCUMENT_VERSION, "findings": documents}, args.output)
    else:
        _show(findings)
    return status_of(findings)


def examine(
    host: Host, config: Path | None = None, state_file: str | None = None
) -> Iterator[Finding]:
    """Yield the findings of all checks; the paths are on the host, as without its root."""
    nodes, machine = check_nodes(host)
    configuration, settings = check_configuration(host, machine, config)
    yield from check_runtimes(host)
    used = settings
    if state_file is not None:
        used = replace(settings or Settings(), state_file=state_file)
    yield from check_instance(host, used, machine)
    yield from configuration
    yield from check_service(host, settings)
    yield from check_kubelet(host, settings)
    yield from check_memory_policies(host, settings)
    yield from check_network_hints(host, settings)
    yield from check_claims(host, used)
    yield from check_cgroups(host)
    yield nodes
    yield from check_excluded_nodes(host, settings, machine)
    yield from check_hugepages(host, config, state_file)


def _show(findings: tuple[Finding, ...]) -> None:
    from rich.table import Table  # noqa: PLC0415 - only for people
    from rich.text import Text  # noqa: PLC0415 - only for people

    from nri_numamem.cli.render.screen import Screen  # noqa: PLC0415 - only for people

    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for finding in findings:
        verdict = _SHOWN.get(finding.verdict, str(finding.verdict))
        text = escape(finding.text)
        if finding.remedy:
            text += f"\n{escape(finding.remedy)}"
        table.add_row(Text(verdict, _STYLES.get(finding.verdict, "")), Text(text))
    counts = Counter(finding.verdict for finding in findings)
    shown = ", ".join(f"{counts[verdict]} {verdict}" for verdict in Verdict if counts[verdict])
    screen = Screen()
    screen.heading(f"Checks of this host: {shown}")
    screen.shown(table)
