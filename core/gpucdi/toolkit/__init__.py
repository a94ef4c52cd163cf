"""The NVIDIA Container Toolkit: from a handler's binary to the names a container will ask for.

Owns: wrapper scripts, ``config.toml``, toolkit versions, mode resolution and requests. Must not
know: engines' configuration files, nor whether a name resolves (``gpucdi.cdi``).
"""

from gpucdi.toolkit.jit import JitGpu, JitInventory
from gpucdi.toolkit.jit_host import kernel_inventory
from gpucdi.toolkit.model import HandlerRuntime, Mode, Toolkit, ToolkitConfig
from gpucdi.toolkit.names import possible_releases, request_names
from gpucdi.toolkit.nri import NriRequest, nri_request
from gpucdi.toolkit.platform import kernel_module_loaded, read_platform
from gpucdi.toolkit.pod import PodContainer, PodOutcome, predict_pod
from gpucdi.toolkit.podtext import PodReason, PodText
from gpucdi.toolkit.prediction import Outcome, Step, Verdict, predict, reader_of
from gpucdi.toolkit.request import (
    ContainerRequest,
    Platform,
    Requested,
    RequestMount,
    RequestOrigin,
)
from gpucdi.toolkit.runtime import resolve_runtime
from gpucdi.toolkit.settings import Setting, effective_settings
from gpucdi.toolkit.suggest import Suggestion, suggest_edit
from gpucdi.toolkit.table import HandlerRow, handler_rows, rows_of

__all__ = [
    "ContainerRequest",
    "HandlerRow",
    "HandlerRuntime",
    "JitGpu",
    "JitInventory",
    "Mode",
    "NriRequest",
    "Outcome",
    "Platform",
    "PodContainer",
    "PodOutcome",
    "PodReason",
    "PodText",
    "RequestMount",
    "RequestOrigin",
    "Requested",
    "Setting",
    "Step",
    "Suggestion",
    "Toolkit",
    "ToolkitConfig",
    "Verdict",
    "effective_settings",
    "handler_rows",
    "kernel_inventory",
    "kernel_module_loaded",
    "nri_request",
    "possible_releases",
    "predict",
    "predict_pod",
    "read_platform",
    "reader_of",
    "request_names",
    "resolve_runtime",
    "rows_of",
    "suggest_edit",
]
