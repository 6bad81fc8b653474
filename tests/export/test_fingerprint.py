"""The fingerprint, against values of podfingerprint v0.2.2 (Go) and of the XXH64 specification."""

import pytest

from nri_numamem.export.fingerprint import fingerprint, xxh64

_LONG_NAMESPACE = "monitoring-stack-of-the-whole-cluster"
_LONG_NAME = "prometheus-kube-prometheus-stack-prometheus-node-exporter-0"
_DNS = ("kube-system", "coredns-66bff467f8-2xk7p")

# Printed by a Go program with NewFingerprint, Add and Sign of podfingerprint v0.2.2.
OF_GO = [
    ([], "pfp0v001ef46db3751d8e999"),
    ([("default", "a")], "pfp0v00173ac1f6debaedf3d"),
    ([_DNS, ("default", "web-0")], "pfp0v001b924d57d312689e8"),
    (
        [_DNS, ("default", "web-0"), (_LONG_NAMESPACE, _LONG_NAME), ("shop", "db-0")],
        "pfp0v0019b0740728648a988",
    ),
]


@pytest.mark.parametrize(("pods", "signature"), OF_GO)
def test_as_the_scheduler_computes_it(pods: list[tuple[str, str]], signature: str) -> None:
    assert fingerprint(pods) == signature
    assert fingerprint(reversed([*pods, *pods])) == signature


def test_each_pod_counts() -> None:
    pods = {("a", "b"), ("b", "a"), ("a", "bb"), ("aa", "b"), ("", "ab")}
    assert len({fingerprint(pods - {pod}) for pod in pods}) == len(pods)


# Sanity checks of the reference implementation: the bytes are those of its generator.
def _reference_bytes(length: int) -> bytes:
    generator, data = 2654435761, bytearray()
    for _ in range(length):
        data.append(generator >> 56)
        generator = generator * 11400714785074694797 % 2**64
    return bytes(data)


@pytest.mark.parametrize(
    ("length", "seed", "value"),
    [
        (0, 0, 0xEF46DB3751D8E999),
        (0, 2654435761, 0xAC75FDA2929B17EF),
        (1, 0, 0xE934A84ADB052768),
        (1, 2654435761, 0x5014607643A9B4C3),
        (4, 0, 0x9136A0DCA57457EE),
        (14, 0, 0x8282DCC4994E35C8),
        (14, 2654435761, 0xC3BD6BF63DEB6DF0),
        (222, 0, 0xB641AE8CB691C174),
        (222, 2654435761, 0x20CB8AB7AE10C14A),
    ],
)
def test_xxh64(length: int, seed: int, value: int) -> None:
    assert xxh64(_reference_bytes(length), seed) == value
