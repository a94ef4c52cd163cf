"""Advice that serves causes of both tables."""

from __future__ import annotations

from gpucdi.diagnosis.model import Advice, BlastRadius
from gpucdi.findings import Who

REFRESH = Advice(
    "generate the host's spec anew with nvidia-cdi-refresh",
    BlastRadius.FILE,
    Who.ADMIN,
    command="systemctl restart nvidia-cdi-refresh.service",
    valid_for="toolkit packages 1.18 and newer on the host",
    kind="nvidia.com/gpu",
)
ALIGN = Advice(
    "use one version of the NVIDIA Container Toolkit for everything on the node",
    BlastRadius.NODE,
    Who.ADMIN,
)
