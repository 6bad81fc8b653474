"""Texts from outside, such as names of pods, for records and replies: limited and printable.

Users of a cluster choose some of these texts. A text of a megabyte or a control character must
reach neither a log, nor a terminal, nor ``kubectl describe pod``.
"""

import json

# The API server accepts names of at most 253 characters.
NAME_CHARACTERS = 256

TEXT_CHARACTERS = 4096


def cut(text: str, limit: int = TEXT_CHARACTERS) -> str:
    """Return the first `limit` characters of a text; its length follows if it is longer."""
    if len(text) <= limit:
        return text
    return f"{text[:limit]}... ({len(text)} characters)"


def cut_name(name: str) -> str:
    """Return the name of a pod, namespace or container with at most NAME_CHARACTERS characters."""
    return cut(name, NAME_CHARACTERS)


def escape(text: str) -> str:
    r"""Return a text in which each character that is not printable is replaced by \uXXXX.

    Not printable are control characters (C0, DEL, C1), line separators, bidirectional and other
    formatting characters, and all spaces but the ordinary one. The escapes are those of JSON.
    """
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else json.dumps(char)[1:-1] for char in text)
