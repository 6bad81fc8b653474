"""A configuration text, followed by a NUL character and a kubelet's configuration file.

The result is settings, or an error of one line with file and line number. Settings can be written
and read again, and either fit a small machine or cause an error of one line.
"""

from dataclasses import replace

from nri_numamem.config.documents import decode
from nri_numamem.config.errors import UsageError
from nri_numamem.config.load import load_text
from nri_numamem.config.policy import policy_of
from nri_numamem.config.settings import Settings, settings_from_mapping, settings_to_mapping
from nri_numamem.engine.setup import new_context
from nri_numamem.memorymanager import ReservedMemoryError
from nri_numamem.numa import MemoryNodesError
from tests.fuzz.checks import check_one_line
from tests.fuzz.folder import empty_folder
from tests.fuzz.hosts import small_machine

_KUBELET = b"kind: KubeletConfiguration\n"


def one_input(data: bytes) -> None:
    """Read both files, write the settings and read them again."""
    ours, _, kubelet = data.partition(b"\0")
    # The path is always given, so that no path in the input is read.
    path = empty_folder() / "kubelet.yaml"
    path.write_bytes(kubelet or _KUBELET)
    try:
        settings = load_text(decode(ours, "ours"), "ours", path)
    except UsageError as error:
        check_one_line(error)
        _check_place(error, ("ours", str(path)))
        return
    assert settings.kubelet_config_file == str(path)
    assert all(len(note.splitlines()) == 1 for note in settings.notes)
    again = settings_from_mapping(settings_to_mapping(settings))
    found = settings.kubelet_memory_manager_policy
    assert replace(again, kubelet_memory_manager_policy=found) == settings
    _use(settings)


def _check_place(error: UsageError, origins: tuple[str, ...]) -> None:
    origin, line, _ = str(error).split(":", 2)
    assert origin in origins
    assert int(line) >= 1


def _use(settings: Settings) -> None:
    try:
        context = new_context(small_machine(2), policy_of(settings))
    except (MemoryNodesError, ReservedMemoryError) as error:
        check_one_line(error)
    else:
        context.empty_accounting()
