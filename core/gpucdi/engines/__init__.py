"""Container engines: which handler runs which binary, and which CDI directories an engine reads.

Owns: containerd, CRI-O, Docker and Podman configuration as each engine itself would read it. Must
not know: what the NVIDIA runtime does with a request (``gpucdi.toolkit``), nor CDI specs.
"""

from gpucdi.engines.discover import discover_engines
from gpucdi.engines.model import Engine, EngineName, Handler

__all__ = ["Engine", "EngineName", "Handler", "discover_engines"]
