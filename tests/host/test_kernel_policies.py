"""Memory policies that a kernel lacks, by its release and its files."""

from pathlib import Path

import pytest

from nri_numamem.host.kernel_policies import WEIGHTS, missing_modes
from nri_numamem.host.roots import HostRoots
from nri_numamem.numa import PolicyMode


@pytest.mark.parametrize(
    ("release", "lacks_many"),
    [
        ("6.18.1\n", False),
        ("5.15.0-100-generic\n", False),
        ("5.14.0-570.el9.x86_64\n", True),
        ("4.18.0\n", True),
        ("unknown", False),
        (None, False),
    ],
)
@pytest.mark.parametrize("has_weights", [True, False])
def test_missing_modes(
    tmp_path: Path, release: str | None, has_weights: bool, lacks_many: bool
) -> None:
    roots = HostRoots(tmp_path / "sys", tmp_path / "proc", tmp_path)
    if has_weights:
        (roots.sysfs / WEIGHTS).mkdir(parents=True)
    if release is not None:
        (roots.proc / "sys/kernel").mkdir(parents=True)
        (roots.proc / "sys/kernel/osrelease").write_text(release)
    expected = {PolicyMode.PREFERRED_MANY} if lacks_many else set()
    if not has_weights:
        expected.add(PolicyMode.WEIGHTED_INTERLEAVE)
    assert missing_modes(roots) == expected
