"""Which exchanges there are by the settings."""

from pathlib import Path

from nri_numamem.config.claims import ClaimSettings
from nri_numamem.config.earmarks import EarmarkSettings
from nri_numamem.config.settings import Settings
from nri_numamem.daemon.exchanges import NAMES, Exchanges
from nri_numamem.nri.poller import HostClock
from tests.observe.collected import Collected


def _exchanges(root: Path, **more: object) -> Exchanges:
    settings = Settings(state_file=str(root / "lib" / "state"), **more)  # type: ignore[arg-type]
    return Exchanges(settings, Collected(), HostClock(), lambda: True, lambda: None)


def test_there_are_none_by_default(tmp_path: Path) -> None:
    found = _exchanges(tmp_path)
    assert list(found) == []
    assert found.prepared_claims() is None
    found.close()
    assert not (tmp_path / "lib").exists()


def test_each_is_a_job_with_files_beside_the_state_file(tmp_path: Path) -> None:
    claims = ClaimSettings(enabled=True, cdi_directory=str(tmp_path / "cdi"))
    found = _exchanges(tmp_path, claims=claims, earmarks=EarmarkSettings(enabled=True))
    assert tuple(each.name for each in found) == NAMES
    assert found.prepared_claims() == ()
    found.close()
    sockets = sorted(path.parent for path in (tmp_path / "lib").rglob("wake.sock"))
    assert [path.name for path in sockets] == ["answers", "answers"]
