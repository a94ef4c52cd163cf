"""Not asking the driver twice within a few seconds when nothing about it changed.

Owns: how long a reading is good for and what ends it early. Must not know: what a reading says.

Spec files often change in bursts, and each question to NVML costs a process; what a spec file says
has no influence on the answer. Yet the answer is not kept for longer, although the child's start is
most of what a pass costs: whoever changes a MIG layout writes the spec files next, often without a
change among the driver's files, and that pass must not judge the new names by the old layout.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from gpucdi.host import HostTree
from gpucdi_agent.nvml import Nvml, NvmlReading

GOOD_FOR_SECONDS = 5.0
_LISTED = ("/dev/nvidia-caps", "/proc/driver/nvidia/gpus")
_VERSION = "/proc/driver/nvidia/version"


@dataclass(slots=True)
class RecentNvml:
    """Answers from the last reading while it is recent and the driver's files are the same."""

    nvml: Nvml
    host: HostTree
    monotonic: Callable[[], float]
    _reading: NvmlReading | None = None
    _asked: tuple[object, ...] = ()
    _until: float = 0.0

    def read(self, library: str | None) -> NvmlReading:
        """Ask NVML unless that has just been done; a failure is never kept."""
        asked = (library, self._driver_files())
        if self._reading is None or asked != self._asked or self.monotonic() >= self._until:
            self._reading = self.nvml.read(library)
            self._asked = asked
            self._until = self.monotonic() + GOOD_FOR_SECONDS
        reading = self._reading
        if reading.failure is not None or reading.failed:
            self._reading = None
        return reading

    def _driver_files(self) -> tuple[object, ...]:
        listed = tuple(self._names(path) for path in _LISTED)
        nodes = tuple(name for name in self._names("/dev") if name.startswith("nvidia"))
        try:
            version = self.host.read(_VERSION, limit_bytes=65536)
        except OSError:
            version = b""
        return (*listed, nodes, version)

    def _names(self, path: str) -> tuple[str, ...]:
        try:
            return tuple(self.host.listdir(path))
        except OSError:
            return ()
