"""The NVIDIA Container Toolkit: from a handler's binary to the names a container will ask for.

Owns: wrapper scripts, ``config.toml``, toolkit versions, mode resolution and requests. Must not
know: engines' configuration files, nor whether a name resolves (``gpucdi.cdi``).
"""

from gpucdi.toolkit.model import HandlerRuntime, Mode, Toolkit, ToolkitConfig
from gpucdi.toolkit.runtime import resolve_runtime

__all__ = ["HandlerRuntime", "Mode", "Toolkit", "ToolkitConfig", "resolve_runtime"]
