import pytest

from nri_numamem.numa.cpuset import CPU_ID_LIMIT, CpuSet


def test_cpu_ids_go_up_to_the_kernels_limit() -> None:
    assert CPU_ID_LIMIT == 8192
    assert list(CpuSet.parse("8190-8191")) == [8190, 8191]
    with pytest.raises(ValueError, match="'8192' is not a range of CPUs"):
        CpuSet.parse("8192")


def test_threads_of_one_socket() -> None:
    threads = CpuSet.parse("0-31,64-95\n")
    assert len(threads) == 64
    assert 63 not in threads
    assert str(threads) == "0-31,64-95"


def test_error_texts_name_cpus() -> None:
    with pytest.raises(ValueError, match="'x' is not a list of CPUs such as 0-1,3"):
        CpuSet.parse("x")
