"""How the tests run a command, and what the captured incident is about."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parents[2]
UUID = "GPU-4044aeb5-b7e4-8cb0-69a8-40490ce01a2f"
OTHER_UUID = "GPU-9c1d2f60-3a57-1e84-b0c6-5d7e81f2a943"
KIND = "management.nvidia.com/gpu"


@dataclass(frozen=True)
class Ran:
    """How one run of a command ended."""

    code: int
    out: str
    err: str


Run = Callable[..., Ran]
