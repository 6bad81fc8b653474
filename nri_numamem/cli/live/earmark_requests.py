"""What commands request of the plugin about earmarks: a file, and the wait for the answer."""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from nri_numamem.cli.live.facts import Facts
from nri_numamem.config.errors import UsageError
from nri_numamem.engine.core.earmarks import Earmark
from nri_numamem.host.sysfs import MachineError
from nri_numamem.observe import earmark_files
from nri_numamem.observe.earmark_files import EarmarkFileError
from nri_numamem.observe.files import reason_of

ANSWER_S = 10.0
_LOOK_S = 0.05


def directory_of(facts: Facts) -> Path:
    """Return the directory of the files; raise UsageError if no plugin reads them."""
    if not facts.state_file:
        raise UsageError('stateFile is "", so there is no directory for earmarks')
    if facts.holder is None:
        raise UsageError("the plugin does not run; nri-numamem doctor says what to do")
    if not facts.settings.earmarks.enabled:
        where = facts.settings_origin
        raise UsageError(f"{where}: earmarks.enabled is not true; set it and restart the plugin")
    return earmark_files.directory_of(Path(facts.state_file))


@contextmanager
def usage_errors() -> Iterator[None]:
    """Raise UsageError for a host or files that cannot be used."""
    try:
        yield
    except MachineError as error:
        raise UsageError(str(error)) from error
    except EarmarkFileError as error:
        raise UsageError(f"{error}; remove the file") from error
    except OSError as error:
        raise UsageError(f"{error.filename}: {reason_of(error)}; run this as root") from error


def set_aside(directory: Path, made: Earmark) -> str:
    """Make or renew an earmark; return why the plugin refuses it, "" if it does not.

    After a refusal, or without an answer, the files are as before. Raises UsageError without an
    answer, OSError and EarmarkFileError.
    """
    known = {each.uid: each for each in earmark_files.read_wanted(directory).earmarks}
    earmark_files.write_wanted(directory, made)

    def refusal() -> str | None:
        answer = earmark_files.read_answers(directory).get(made.uid)
        is_of_this = answer is not None and answer.expires_s == made.expires_s
        return answer.refusal if answer is not None and is_of_this else None

    found: str | None = None
    try:
        found = _wait_for(refusal)
    finally:
        if found != "":
            if made.uid in known:
                earmark_files.write_wanted(directory, known[made.uid])
            else:
                earmark_files.remove_wanted(directory, made.uid)
    return found


def end(directory: Path, uids: Sequence[str]) -> None:
    """End earmarks; raise UsageError without an answer, OSError and EarmarkFileError."""
    for uid in uids:
        earmark_files.remove_wanted(directory, uid)

    def are_gone() -> str | None:
        return None if earmark_files.read_answers(directory).keys() & set(uids) else ""

    _wait_for(are_gone)


def _wait_for(look: Callable[[], str | None]) -> str:
    """Return what `look` finds; raise UsageError if it finds nothing for some seconds."""
    deadline_s = time.monotonic() + ANSWER_S
    while time.monotonic() < deadline_s:
        found = look()
        if found is not None:
            return found
        time.sleep(_LOOK_S)
    raise UsageError(f"the plugin did not answer within {ANSWER_S:g} s; see its log")
