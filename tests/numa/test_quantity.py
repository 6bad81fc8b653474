from fractions import Fraction
from random import Random

import pytest

from nri_numamem.numa.quantity import (
    EXACT_ONE,
    MAX_BYTES,
    canonical_resource,
    format_page_size,
    format_quantity,
    hugepages_page_size,
    hugepages_resource,
    humanize_bytes,
    is_memory_resource,
    parse_exact,
    parse_page_size,
    parse_quantity,
    sum_amounts,
    sum_mappings,
)


@pytest.mark.parametrize(
    ("quantity", "size_bytes"),
    [
        (0, 0),
        (4096, 4096),
        ("0", 0),
        ("+3", 3),
        ("12", 12),
        ("1Ki", 1024),
        ("512Mi", 512 * 1024**2),
        ("1.5Gi", 3 * 2**29),
        (".5Ki", 512),
        ("5.", 5),
        ("2Ti", 2 * 1024**4),
        ("1Pi", 1024**5),
        ("7Ei", 7 * 1024**6),
        ("1k", 1000),
        ("100M", 10**8),
        ("3G", 3 * 10**9),
        ("2T", 2 * 10**12),
        ("1P", 10**15),
        ("9E", 9 * 10**18),
        ("1e3", 1000),
        ("1E3", 1000),
        ("12e6", 12_000_000),
        ("5000e-3", 5),
        ("1000m", 1),
        ("3000000u", 3),
        ("1000000000n", 1),
        (1e3, 1000),
        (str(MAX_BYTES), MAX_BYTES),
    ],
)
def test_parse_quantity(quantity: str | int, size_bytes: int) -> None:
    assert parse_quantity(quantity) == size_bytes


@pytest.mark.parametrize(
    ("quantity", "problem"),
    [
        ("", "not a quantity"),
        ("Gi", "not a quantity"),
        (" 1Gi", "not a quantity"),
        ("1 Gi", "not a quantity"),
        ("1gi", "not a quantity"),
        ("1K", "not a quantity"),
        ("1KiB", "not a quantity"),
        ("0x10", "not a quantity"),
        ("٣", "not a quantity"),
        ("1e", "not a quantity"),
        (".", "not a quantity"),
        ("1" * 65, "65 characters"),
        (True, "not a quantity"),
        (None, "not a quantity"),
        ([1], "not a quantity"),
        ("-1", "negative"),
        (-1, "negative"),
        ("100m", "whole number"),
        ("0.1", "whole number"),
        ("1e-3", "whole number"),
        ("1e-999999999999999999999", "whole number"),
        (1.5, "whole number"),
        ("8Ei", "too large"),
        ("1e99999999999999999999", "too large"),
        (MAX_BYTES + 1, "too large"),
    ],
)
def test_invalid_quantities(quantity: str | int, problem: str) -> None:
    with pytest.raises(ValueError, match=problem) as refusal:
        parse_quantity(quantity)
    assert "\n" not in str(refusal.value)
    assert len(str(refusal.value)) < 200


def test_the_error_for_a_long_number_is_short() -> None:
    with pytest.raises(ValueError, match="a number of 16610 bits is too large"):
        parse_quantity(10**5000)


def test_exact_values_of_other_amounts() -> None:
    assert Fraction(parse_exact("1500m"), EXACT_ONE) == Fraction(3, 2)
    assert parse_exact("-2") == -2 * EXACT_ONE


@pytest.mark.parametrize(
    ("size_bytes", "text"),
    [
        (0, "0"),
        (12, "12"),
        (1000, "1000"),
        (1024, "1Ki"),
        (1025 * 1024**2, "1025Mi"),
        (3 * 1024**3, "3Gi"),
        (2048 * 1024**6, "2048Ei"),
    ],
)
def test_format_quantity(size_bytes: int, text: str) -> None:
    assert format_quantity(size_bytes) == text


@pytest.mark.parametrize("seed", range(3))
def test_parse_reads_back_what_format_writes(seed: int) -> None:
    random = Random(seed)
    for _ in range(200):
        size_bytes = random.randrange(2 ** random.randint(1, 63)) << random.choice((0, 10, 20))
        if size_bytes <= MAX_BYTES:
            assert parse_quantity(format_quantity(size_bytes)) == size_bytes


@pytest.mark.parametrize(
    ("size_bytes", "down", "up"),
    [
        (0, "0", "0"),
        (1023, "1023", "1023"),
        (1024, "1Ki", "1Ki"),
        (1536, "1.5Ki", "1.5Ki"),
        (2**30 + 1, "1Gi", "1.01Gi"),
        (134987354112, "125.71Gi", "125.72Gi"),
        (5 * 2**70, "5120Ei", "5120Ei"),
    ],
)
def test_humanize_rounds_down_or_up(size_bytes: int, down: str, up: str) -> None:
    assert humanize_bytes(size_bytes) == down
    assert humanize_bytes(size_bytes, round_up=True) == up


@pytest.mark.parametrize(
    ("size_bytes", "resource", "cgroup"),
    [
        (64 * 1024, "hugepages-64Ki", "64KB"),
        (2 * 1024**2, "hugepages-2Mi", "2MB"),
        (32 * 1024**2, "hugepages-32Mi", "32MB"),
        (512 * 1024**2, "hugepages-512Mi", "512MB"),
        (1024**3, "hugepages-1Gi", "1GB"),
        (16 * 1024**3, "hugepages-16Gi", "16GB"),
    ],
)
def test_page_sizes(size_bytes: int, resource: str, cgroup: str) -> None:
    assert hugepages_resource(size_bytes) == resource
    assert hugepages_page_size(resource) == size_bytes
    assert format_page_size(size_bytes) == cgroup
    assert parse_page_size(cgroup) == size_bytes


def test_other_spellings_of_page_sizes() -> None:
    assert hugepages_page_size("hugepages-2048Ki") == 2 * 1024**2
    assert canonical_resource("hugepages-2048Ki") == "hugepages-2Mi"
    assert canonical_resource("memory") == "memory"
    assert parse_page_size("1024MB") == 1024**3
    assert parse_page_size("1TB") == 1024**4
    assert format_page_size(512) == "512B"
    assert parse_page_size("512B") == 512


@pytest.mark.parametrize(
    "resource", ["memory", "cpu", "hugepages-", "hugepages-3Mi", "hugepages-x", "hugepages-0"]
)
def test_invalid_hugepage_resources(resource: str) -> None:
    with pytest.raises(ValueError, match=r"page|quantity"):
        hugepages_page_size(resource)


@pytest.mark.parametrize("text", ["", "2", "2M", "2MiB", "3MB", "0KB", "2mb", "99999999999GB"])
def test_invalid_page_sizes(text: str) -> None:
    with pytest.raises(ValueError, match="page size"):
        parse_page_size(text)


def test_memory_resources() -> None:
    assert is_memory_resource("memory")
    assert is_memory_resource("hugepages-2Mi")
    assert not is_memory_resource("cpu")
    assert not is_memory_resource("ephemeral-storage")


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("0.1", Fraction(1, 10)),
        (".5Ki", Fraction(512)),
        ("3.E", Fraction(3 * 10**18)),
        ("-1.25n", Fraction(-5, 4 * 10**9)),
        ("1.5e-3", Fraction(3, 2000)),
        ("1e-999", Fraction(1, 10**100)),
        ("1e999", Fraction(10**100)),
        (f"0.{'0' * 55}1e-100", Fraction(1, 10**156)),
        (f"{'9' * 60}Ei", Fraction((10**60 - 1) * 2**60)),
    ],
)
def test_values_are_exact(text: str, value: Fraction) -> None:
    assert Fraction(parse_exact(text), EXACT_ONE) == value


def test_sums_of_amounts_are_in_the_order_of_the_keys() -> None:
    sums = sum_amounts([("b", 1), ("a", 2), ("b", 3), ("c", 0)])
    assert list(sums.items()) == [("b", 4), ("a", 2), ("c", 0)]
    assert sum_amounts([]) == {}


def test_mappings_are_added_for_each_key() -> None:
    sums = sum_mappings([{"b": 1, "a": 2}, {}, {"c": 0, "b": 3}])
    assert list(sums.items()) == [("b", 4), ("a", 2), ("c", 0)]
    assert sum_mappings([]) == {}
