from nri_numamem.daemon.newest import put_newest


def test_the_oldest_entries_are_dropped() -> None:
    entries: dict[str, int] = {}
    for number, key in enumerate("abcad"):
        put_newest(entries, key, number, 3)
    assert list(entries.items()) == [("c", 2), ("a", 3), ("d", 4)]
    put_newest(entries, "e", 5, 1)
    assert entries == {"e": 5}
