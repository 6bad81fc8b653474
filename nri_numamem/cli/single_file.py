"""The program as a single executable file, which packaging/single_file builds.

Interpreter and libraries are inside the file, so it starts itself again without `python -m`.
"""

import importlib
from typing import cast

LICENSES = "--licenses"
"""The option that prints what `licenses` returns; only the single file has it."""

# The build writes this module. It has LICENSES, a text, and VERSIONS, package -> version.
_CONTENTS = "single_file_contents"


def licenses() -> str:
    """Return the licences of everything inside the single file; ImportError without one."""
    return cast("str", importlib.import_module(_CONTENTS).LICENSES)
