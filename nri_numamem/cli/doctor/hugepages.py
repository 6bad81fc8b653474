"""Check of hugepages that are used outside of pods: pods cannot get them."""

import argparse
from collections.abc import Iterator
from pathlib import Path

from nri_numamem.cli.doctor.findings import Finding, Verdict
from nri_numamem.cli.host_arguments import roots_of
from nri_numamem.cli.host_files import Host
from nri_numamem.cli.live.collect import collect_accounting, with_hugepage_users
from nri_numamem.cli.live.outside import OutsideUse, outside_uses
from nri_numamem.config.errors import UsageError
from nri_numamem.numa import humanize_bytes


def check_hugepages(host: Host, config: Path | None, state_file: str | None) -> Iterator[Finding]:
    """Check the kernel's pools against the accounting of the plugin that runs.

    Without a plugin, state or pools there is nothing to compare; other checks report that.
    """
    args = argparse.Namespace(root=host.root, config=config, state_file=state_file)
    try:
        facts = collect_accounting(args)
    except UsageError:
        return
    use = facts.pool_use
    if facts.holder is None or facts.state is None or use is None:
        return
    if any(outside_uses(facts)):
        facts = with_hugepage_users(facts, roots_of(args))
        for found in outside_uses(facts):
            yield Finding("hugepages", Verdict.WARN, found.text, _remedy(found))
    elif any(use.pools.values()):
        yield Finding("hugepages", Verdict.OK, "no hugepages are used outside of pods")


def _remedy(use: OutsideUse) -> str:
    if not use.nodes:
        return "end what reserves them, or reserve as many more with reservedMemory"
    size = humanize_bytes(use.size_bytes)
    more = f"{size} of {use.resource} more on {use.where}"
    return f"pods cannot get them: end what uses them, or let reservedMemory have {more}"
