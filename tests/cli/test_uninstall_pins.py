"""``nri-numamem uninstall`` unpins containers, also after its state file was lost."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from nri_numamem.cli.installation import systemd
from tests.cli.pinned_container import PinnedContainer
from tests.cli.test_uninstall import THEN, path_below
from tests.laboratory.runtime import FakeRuntime
from tests.simulated_host import SimulatedHost

REMEDIES = (
    f"  nri-numamem uninstall --purge --adopted    (unpins them whoever pinned them{THEN})",
    f"  or nri-numamem uninstall --purge --no-reset    (leaves them pinned{THEN})",
)


@pytest.fixture
def ended(
    simulated_host: SimulatedHost, monkeypatch: pytest.MonkeyPatch
) -> Iterator[PinnedContainer]:
    """Return a host whose plugin has ended; the directory is taken for / of this process."""
    monkeypatch.setattr("nri_numamem.cli.host_files.Host.is_this_host", True)
    monkeypatch.setattr("nri_numamem.cli.host_files.Host.path", path_below)
    monkeypatch.setattr(systemd, "BOOTED", Path("/none"))
    monkeypatch.setenv("COLUMNS", "120")
    simulated_host.state_file = simulated_host.root / "var/lib/nri-numamem/nri_numamem_state"
    with FakeRuntime() as runtime:
        stand = PinnedContainer(simulated_host, runtime)
        simulated_host.wait_record("admitted")
        assert simulated_host.stop(stand.process) == 0
        yield stand


def purge(ended: PinnedContainer, *options: str, connects: bool = True) -> int:
    run = ended.reset if connects else ended.run
    return run("--purge", f"--root={ended.host.root}", *options, command="uninstall")


def mems(ended: PinnedContainer) -> str:
    return (ended.directory / "cpuset.mems").read_text().strip()


@pytest.mark.parametrize("is_restarted", [True, False])
def test_the_history_shows_that_the_plugin_pinned_a_container(
    ended: PinnedContainer, *, is_restarted: bool
) -> None:
    """Also if a plugin without a state file adopted it since."""
    ended.host.state_file.unlink()
    if is_restarted:
        ended.restart()
    assert purge(ended) == 0
    assert mems(ended) == "0-1"
    assert not ended.host.state_file.parent.exists()


@pytest.mark.parametrize("is_restarted", [True, False])
def test_without_the_history_too_state_and_logs_stay(
    ended: PinnedContainer, capsys: pytest.CaptureFixture[str], *, is_restarted: bool
) -> None:
    ended.host.state_file.unlink()
    ended.remove_history()
    if is_restarted:
        ended.restart()
    before = sorted(path.name for path in ended.host.state_file.parent.iterdir())
    assert purge(ended, "--dry-run", connects=False) == 1
    assert purge(ended, connects=False) == 1
    assert sorted(path.name for path in ended.host.state_file.parent.iterdir()) == before
    shown = capsys.readouterr().out
    assert "left as it is: set by the plugin or by something else" in shown
    assert ("no state file" in " ".join(shown.split())) is not is_restarted
    assert shown.endswith("remaining:\n" + "\n".join(REMEDIES) + "\n")
    assert mems(ended) == "0"
    assert purge(ended, "--adopted") == 0
    assert mems(ended) == "0-1"
    assert not ended.host.state_file.parent.exists()


def test_pins_stay_if_asked(ended: PinnedContainer) -> None:
    ended.host.state_file.unlink()
    ended.remove_history()
    assert purge(ended, "--no-reset", connects=False) == 0
    assert mems(ended) == "0"
    assert not ended.host.state_file.parent.exists()


def test_pins_of_a_host_without_any_trace_of_the_plugin_are_not_listed(
    ended: PinnedContainer, capsys: pytest.CaptureFixture[str]
) -> None:
    """Such as those of the kubelet's Memory Manager, after an uninstall."""
    for path in ended.host.state_file.parent.iterdir():
        path.unlink()
    ended.host.state_file.parent.rmdir()
    assert purge(ended, connects=False) == 0
    assert capsys.readouterr().out == "nothing changed\n"
