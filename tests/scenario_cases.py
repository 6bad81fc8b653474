"""Print the results of a scenario of the case files: `python -m tests.scenario_cases FILE`.

The case files in tests/cases have steps that `nri-numamem simulate` has not: single calls of the
kubelet's managers (tests/laboratory/manager_steps.py). The output is that of
`simulate --output json`.
"""

import json
import sys
from pathlib import Path

from nri_numamem.config.documents import load_document, name_of, read_file
from tests.laboratory.manager_steps import case_document


def main(path: Path) -> None:
    """Play the scenario in a file."""
    document = load_document(read_file(path), name_of(path))
    assert isinstance(document, dict), f"{path}: no mapping"
    print(json.dumps(case_document(document), indent=2))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
