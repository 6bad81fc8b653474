"""The fingerprint of the set of pods on a host, in the format of podfingerprint, version 1.

The scheduler plugin keeps its own count of the pods that it has sent to a host, until the object
shows the same set of pods. Both sides compute the fingerprint: "pfp0v001" and 16 hexadecimal
digits, an XXH64 over the ascending XXH64 values of all pods. The value of a pod is that of its
name, with the value of its namespace as seed.
Sources: github.com/k8stopologyawareschedwg/podfingerprint; doc/xxhash_spec.md of xxHash.
"""

from collections.abc import Iterable

ATTRIBUTE = "nodeTopologyPodsFingerprint"
METHOD_ATTRIBUTE = "nodeTopologyPodsFingerprintMethod"
ANNOTATION = "topology.node.k8s.io/fingerprint"
"""Read by releases of the scheduler plugin that are older than the attribute."""
METHOD_ALL = "all"
"""All pods count, not only those with exclusive resources."""

_PREFIX = "pfp0v001"

_MASK = (1 << 64) - 1
_P1 = 0x9E3779B185EBCA87
_P2 = 0xC2B2AE3D27D4EB4F
_P3 = 0x165667B19E3779F9
_P4 = 0x85EBCA77C2B2AE63
_P5 = 0x27D4EB2F165667C5
_STRIPE_BYTES = 32


def fingerprint(pods: Iterable[tuple[str, str]]) -> str:
    """Return the fingerprint of pods: (namespace, name), in any order; duplicates count once."""
    values = sorted(xxh64(name.encode(), xxh64(space.encode())) for space, name in set(pods))
    digest = xxh64(b"".join(value.to_bytes(8, "little") for value in values))
    return f"{_PREFIX}{digest:016x}"


def xxh64(data: bytes, seed: int = 0) -> int:
    """Return the XXH64 hash of some bytes."""
    stripes = len(data) // _STRIPE_BYTES * _STRIPE_BYTES
    value = _of_stripes(data[:stripes], seed) if stripes else (seed + _P5) & _MASK
    value = (value + len(data)) & _MASK
    rest = data[stripes:]
    while len(rest) >= 8:
        value ^= _round(0, int.from_bytes(rest[:8], "little"))
        value = (_rotate(value, 27) * _P1 + _P4) & _MASK
        rest = rest[8:]
    if len(rest) >= 4:
        value ^= (int.from_bytes(rest[:4], "little") * _P1) & _MASK
        value = (_rotate(value, 23) * _P2 + _P3) & _MASK
        rest = rest[4:]
    for byte in rest:
        value = (_rotate(value ^ (byte * _P5) & _MASK, 11) * _P1) & _MASK
    return _mixed(value)


def _of_stripes(data: bytes, seed: int) -> int:
    lanes = [(seed + _P1 + _P2) & _MASK, (seed + _P2) & _MASK, seed, (seed - _P1) & _MASK]
    for begin in range(0, len(data), _STRIPE_BYTES):
        for index in range(4):
            word = data[begin + 8 * index : begin + 8 * index + 8]
            lanes[index] = _round(lanes[index], int.from_bytes(word, "little"))
    turns = zip(lanes, (1, 7, 12, 18), strict=True)
    value = sum(_rotate(lane, bits) for lane, bits in turns) & _MASK
    for lane in lanes:
        value = ((value ^ _round(0, lane)) * _P1 + _P4) & _MASK
    return value


def _round(lane: int, word: int) -> int:
    return (_rotate((lane + word * _P2) & _MASK, 31) * _P1) & _MASK


def _rotate(value: int, bits: int) -> int:
    return ((value << bits) | (value >> (64 - bits))) & _MASK


def _mixed(value: int) -> int:
    value = ((value ^ (value >> 33)) * _P2) & _MASK
    value = ((value ^ (value >> 29)) * _P3) & _MASK
    return value ^ (value >> 32)
