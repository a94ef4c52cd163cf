"""Logs are long and may hold anything; the failure in them is found, and in bounded time."""

from __future__ import annotations

import pytest

from gpucdi.diagnosis import diagnose_nothing
from gpucdi.failures import extract

NAME = "management.nvidia.com/gpu=GPU-4044aeb5-b7e4-8cb0-69a8-40490ce01a2f"
MESSAGE = f"failed to inject CDI devices: unresolvable CDI devices {NAME}\n"
OTHER_LINES = "a line of something else\n" * 60_000


@pytest.mark.parametrize("log", [MESSAGE + OTHER_LINES, OTHER_LINES + MESSAGE + OTHER_LINES])
def test_a_failure_far_from_the_end_of_a_long_log_is_found(log: str) -> None:
    assert [failure.names for failure in extract(log)] == [(NAME,)]


@pytest.mark.timeout(20)
@pytest.mark.parametrize("token", ["f.", "x", "ab-", "a.b/c"])
def test_one_endless_token_takes_no_endless_time(token: str) -> None:
    assert extract(token * 200_000) == ()
    diagnose_nothing(token * 200_000)
