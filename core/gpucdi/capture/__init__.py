"""Captured nodes: exactly the files that a verdict looked at, as a folder or a ``.tar.gz``.

Owns: recording what a verdict reads, redaction, the archive, and opening one safely. Must not know:
what any file means.
"""

from gpucdi.capture.archive import ArchiveError, open_tree, write_archive
from gpucdi.capture.content import Capture, collect
from gpucdi.capture.record import RecordingPrograms, RecordingTree
from gpucdi.capture.redact import redacted

__all__ = [
    "ArchiveError",
    "Capture",
    "RecordingPrograms",
    "RecordingTree",
    "collect",
    "open_tree",
    "redacted",
    "write_archive",
]
