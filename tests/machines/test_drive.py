"""The second drive of a machine."""

import tarfile
from pathlib import Path

from tests.machines import drive, image


def test_a_drive_has_the_guests_programs_and_what_is_tested(tmp_path: Path) -> None:
    (tmp_path / "program").write_text("x")
    path = tmp_path / "drive.tar"
    drive.write(path, {"kubelet": tmp_path / "program"}, drive.ROOT / "tests/features/guest")
    with tarfile.open(path) as archive:
        names = archive.getnames()
        init = archive.getmember(image.INIT_NAME)
    assert names == sorted(names)
    assert init.mode & 0o111
    for name in ("machines/guest/main.py", "features/guest/phases.py", "e2e/guest/phases.py"):
        assert f"tests/{name}" in names
    assert {"artefacts/kubelet", "troubleshooting.md"} <= set(names)
