"""Fixtures of the session's tests."""

import pytest

from tests.nri.runtime_side import FakeHandler, RuntimeSide


@pytest.fixture
def handler() -> FakeHandler:
    return FakeHandler()


@pytest.fixture(params=[None, 1, 7], ids=["whole", "byte by byte", "sevens"])
def runtime(handler: FakeHandler, request: pytest.FixtureRequest) -> RuntimeSide:
    return RuntimeSide(handler, request.param)
