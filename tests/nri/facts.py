"""Facts about a host for a decoder, of which tests set some."""

from collections.abc import Callable, Mapping
from typing import Any

from nri_numamem.nri.host_facts import NoHostFacts


class Facts(NoHostFacts):
    """Replaces properties and readers of NoHostFacts."""

    def __init__(
        self,
        hugepage_limits: Callable[[str], Mapping[int, int]] | None = None,
        **replaced: Any,  # noqa: ANN401 - a property or a reader
    ) -> None:
        if hugepage_limits is not None:
            replaced["hugepage_limits"] = hugepage_limits
        for name, value in replaced.items():
            assert hasattr(NoHostFacts, name)
            setattr(self, name, value)
