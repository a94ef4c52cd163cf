"""The effective view against the real ``containerd config dump``, for every mix of versions."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from tests.engines.dumps import VERSIONS, Dump, dump, program, write_random
from tests.lab.programs import ProgramMissingError

from gpucdi.engines import discover_engines
from gpucdi.findings import Severity
from gpucdi.host import HostTree
from gpucdi.programs import CapturedPrograms

CASES = int(os.environ.get("GPUCDI_DUMP_N", "60"))

pytestmark = pytest.mark.lab


def seen(root: Path, version: str) -> Dump:
    """What gpucdi says, in the terms of a dump."""
    [engine] = discover_engines(HostTree(root), CapturedPrograms(engines={"containerd": version}))
    if not engine.handlers:
        [finding] = engine.findings
        if finding.severity is Severity.INFO:
            return Dump(is_disabled=True)
        return Dump(error=finding.message)
    return Dump(
        default=engine.default_handler.value or "",
        binaries={handler.name: handler.binary.value for handler in engine.handlers},
        spec_dirs=engine.spec_dirs.value,
        enable_cdi=engine.cdi_enabled.value,
    )


def difference(version: str, ours: Dump, real: Dump) -> str | None:
    if version.startswith("2") and (ours.is_disabled or "missing.toml" in (ours.error or "")):
        # Here the dump of 2.x is no evidence: it ignores a missing import and disabled plugins,
        # over both of which the daemon itself stumbles.
        return None
    if real.error is not None or ours.error is not None:
        agree = real.error is not None and ours.error is not None
        return None if agree else f"we: {ours.error}, it: {real.error}"
    if ours.is_disabled or real.is_disabled:
        return None if ours == real else f"we: {ours}, it: {real}"
    if (ours.default, ours.binaries) != (real.default, real.binaries):
        return f"we: {ours.default} {ours.binaries}, it: {real.default} {real.binaries}"
    if version.startswith("1.6"):
        return None
    if version.startswith("1.7") and ours.enable_cdi != real.enable_cdi:
        return f"we: enable_cdi {ours.enable_cdi}, it: {real.enable_cdi}"
    # 2.4 prints an empty list and still reads the default directories.
    expected = real.spec_dirs or (("/etc/cdi", "/var/run/cdi") if version >= "2.4" else ())
    return None if ours.spec_dirs == expected else f"we: {ours.spec_dirs}, it: {expected}"


@pytest.mark.parametrize("version", VERSIONS)
def test_handlers_and_directories_are_those_of_the_real_dump(version: str, tmp_path: Path) -> None:
    try:
        program(version)
    except ProgramMissingError as missing:
        pytest.skip(str(missing))
    differences = []
    for seed in range(CASES):
        root = tmp_path / str(seed)
        write_random(root, seed)
        found = difference(version, seen(root, version), dump(version, root))
        if found is not None:
            differences.append(f"seed {seed}: {found}")
    assert differences == []
