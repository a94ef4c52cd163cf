"""Every wording, in the order in which they are tried. Owns the order."""

from __future__ import annotations

from gpucdi.failures.formats import Format
from gpucdi.failures.formats_cdi import FIRST, LAST
from gpucdi.failures.formats_generate import CLAIMS, DRIVER, GENERATORS, IMAGES, POLICY
from gpucdi.failures.formats_mounts import LIBRARIES, MOUNTS
from gpucdi.failures.formats_runtime import HANDLERS, HOOKS, LEGACY

FORMATS: tuple[Format, ...] = (
    *FIRST,
    *LEGACY,
    *HOOKS,
    *HANDLERS,
    *MOUNTS,
    *LIBRARIES,
    *GENERATORS,
    *DRIVER,
    *POLICY,
    *CLAIMS,
    *LAST,
    *IMAGES,
)
