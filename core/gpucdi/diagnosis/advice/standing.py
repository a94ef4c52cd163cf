"""Advice that depends on the cause alone. Owns the one table that both halves make up."""

from __future__ import annotations

from collections.abc import Mapping

from gpucdi.diagnosis.advice.for_hosts import FOR_HOSTS
from gpucdi.diagnosis.advice.for_requests import FOR_REQUESTS
from gpucdi.diagnosis.model import Advice
from gpucdi.findings import Cause

STANDING: Mapping[Cause, tuple[Advice, ...]] = {**FOR_HOSTS, **FOR_REQUESTS}
