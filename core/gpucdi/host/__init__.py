"""A host's file system, seen through a root that may be ``/`` or a captured tree.

Owns: resolving host paths inside the root the way the host itself would (absolute symbolic links
such as ``/var/run -> /run`` stay inside, ``..`` never climbs out), bounded reads that can neither
hang on a FIFO nor touch a device, and the facts that a captured tree carries beside its files
(``gpucdi-capture.json``). Must not know: CDI, engines, what any file means.

Every path that goes in or comes out is a *host path*: absolute, as the node writes it.
"""

from gpucdi.host.captured import CAPTURE_NAME
from gpucdi.host.facts import (
    READ_LIMIT_BYTES,
    CaptureFacts,
    FileKind,
    FileStat,
    FileTooLargeError,
    Listing,
)
from gpucdi.host.paths import PATH_LIMIT_BYTES, in_byte_order, normal
from gpucdi.host.tree import LINK_LIMIT, LIST_LIMIT, HostTree, real_or_same

__all__ = [
    "CAPTURE_NAME",
    "LINK_LIMIT",
    "LIST_LIMIT",
    "PATH_LIMIT_BYTES",
    "READ_LIMIT_BYTES",
    "CaptureFacts",
    "FileKind",
    "FileStat",
    "FileTooLargeError",
    "HostTree",
    "Listing",
    "in_byte_order",
    "normal",
    "real_or_same",
]
