"""The variables by which coverage measures the processes that tests start.

coverage puts them into this process's environment (`patch` in pyproject.toml), and processes
inherit them. Two kinds of processes need help: processes that get an environment of their own, and
processes whose imports are under test, because coverage adds its own imports.
"""

import os

PREFIX = "COVERAGE_"


def coverage_variables() -> dict[str, str]:
    """Return coverage's variables; none where nothing is measured."""
    return {name: value for name, value in os.environ.items() if name.startswith(PREFIX)}


def environment_without_coverage() -> dict[str, str]:
    """Return the environment for a process that coverage leaves alone."""
    return {name: value for name, value in os.environ.items() if not name.startswith(PREFIX)}
