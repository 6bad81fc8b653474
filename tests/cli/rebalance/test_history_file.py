"""The file of what the agent has evicted."""

from pathlib import Path

import pytest

from nri_numamem.cli.rebalance.history_file import EvictionHistoryFile
from nri_numamem.config.errors import UsageError
from nri_numamem.export.rebalancing import EvictionHistory, PastEviction


def test_it_is_beside_the_state_file(tmp_path: Path) -> None:
    file = EvictionHistoryFile(tmp_path / "nri_numamem_state")
    assert file.path == tmp_path / "rebalancing" / "evictions.json"
    assert file.read() == EvictionHistory()
    history = EvictionHistory(evictions=(PastEviction(5.0, "u", "c"),))
    file.write(history)
    assert file.read() == history
    assert file.path.stat().st_mode & 0o777 == 0o600
    assert file.path.parent.stat().st_mode & 0o777 == 0o700


def test_a_file_that_cannot_be_used_is_named(tmp_path: Path) -> None:
    file = EvictionHistoryFile(tmp_path / "nri_numamem_state")
    file.path.parent.mkdir()
    file.path.write_text("{")
    with pytest.raises(UsageError, match=r"evictions.json: not JSON: .*; remove the file"):
        file.read()
    file.path.unlink()
    file.path.mkdir()
    with pytest.raises(UsageError, match=r"evictions.json: .*; run the agent as root"):
        file.read()
    with pytest.raises(UsageError, match=r"evictions.json: .*; let the agent write there"):
        file.write(EvictionHistory())
