"""Durations for people."""


def duration(seconds: float) -> str:
    """Return a duration in its largest whole unit: "3 d", "4 h", "5 min", "6 s"."""
    for unit, length in (("d", 86_400), ("h", 3_600), ("min", 60)):
        if seconds >= length:
            return f"{int(seconds // length)} {unit}"
    return f"{int(seconds)} s"
