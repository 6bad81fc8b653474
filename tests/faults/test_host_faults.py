"""The fault `disk frozen`: which losses of records it accepts, and where it is left out."""

import random
from typing import cast

import pytest

from tests.faults.failure import Failure
from tests.faults.faults import FAULTS
from tests.faults.host_faults import check_records, freeze_disk
from tests.faults.life import Life
from tests.faults.play import Report
from tests.faults.run import table


class Stub:
    """Attributes that are read."""

    def __init__(self, **values: object) -> None:
        self.__dict__.update(values)


def life_with(*records: dict[str, object]) -> Life:
    plugin = Stub(journal=Stub(records=list(records)))
    return cast("Life", Stub(plugin=plugin, host=Stub(has_lost_records=False)))


def test_every_container_has_a_record() -> None:
    life = life_with({"event": "admitted", "container_id": "a"})
    check_records(life, ["a"])
    assert not life.host.has_lost_records
    with pytest.raises(Failure, match=r"records of \['b'\] are missing, counted as dropped are \["):
        check_records(life, ["a", "b"])


def test_a_record_that_is_missing_is_counted() -> None:
    life = life_with({"event": "log_records_dropped", "dropped_records": 1})
    check_records(life, ["a"])
    assert life.host.has_lost_records
    with pytest.raises(Failure, match=r"counted as dropped are \[1\]"):
        check_records(life, ["a", "b"])


def test_a_life_without_files_on_the_disk_has_no_such_fault() -> None:
    log = Stub(is_relative_to=lambda _folder: False)
    life = cast(
        "Life",
        Stub(host=Stub(log=log, disk=None), parameters=Stub(has_state_file=False), faults={}),
    )
    assert not freeze_disk(life, random.Random(1))


def test_the_table_has_lives_without_the_fault() -> None:
    assert "disk frozen" in FAULTS
    assert table([Report(1)])[-1] == "disks that can be frozen: in all lives"
    reports = [Report(1), Report(2, unfreezable_reason="mount: must be superuser")]
    line = "lives without the fault 'disk frozen': 1 (mount: must be superuser)"
    assert table(reports)[-1] == line
