"""Types and names that the tests of :mod:`gpucdi.cdi` share."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from gpucdi.host import HostTree

Tree = Callable[[Mapping[str, str | bytes]], HostTree]
DIRS = ("/etc/cdi", "/var/run/cdi")
