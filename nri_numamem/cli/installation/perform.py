"""Executes a plan, or shows it, and prints lists for people: what was done, and what remains."""

from collections.abc import Sequence

from nri_numamem.cli.host_files import Host
from nri_numamem.cli.installation import systemd
from nri_numamem.cli.installation.apply import apply
from nri_numamem.cli.installation.steps import Step, describe


def perform(steps: Sequence[Step], host: Host, *, is_dry_run: bool) -> None:
    """Execute the steps and print a line for each; raise UsageError if one fails."""
    if not is_dry_run:
        apply(steps, host, systemd.run)
    for step in steps:
        print(describe(step, is_done=not is_dry_run))


def print_nothing(*, is_dry_run: bool) -> None:
    """Print that there are no steps."""
    print("nothing to change" if is_dry_run else "nothing changed")


def print_remaining(lines: Sequence[str]) -> None:
    """Print what the user has to do."""
    if lines:
        print("\nremaining:")
        print("".join(f"  {line}\n" for line in lines), end="")
