"""Read what the demo printed."""

import re


def results_in(shown: str) -> list[str]:
    """Return the results in the order of the steps: "result cpuset.mems 0", "rejected"."""
    found = re.findall(r"^  (result|rejected) +(.*)$", shown, re.MULTILINE)
    return [label if label == "rejected" else f"{label} {text}" for label, text in found]
