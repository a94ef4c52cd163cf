"""The Container Device Interface, bit for bit as the Go library understands it.

Owns: names, spec files, registries and their answers, for every release of the library from 0.5.4
to 1.1.2, chosen by a :class:`Library`. Must not know: engines, toolkits, clusters; it stands on
:mod:`gpucdi.host` and PyYAML alone. ``docs/cdi.md`` shows its use in ten lines.
"""

from __future__ import annotations

from .cached import CachedReader
from .dump import dump_spec
from .library import NEWEST, SUPPORTED, Library
from .lint import LintFinding, LintRule, injection_error, lint_spec
from .loading import FILE_LIMIT, LOAD_LIMIT_NODES, SPEC_LIMIT_BYTES, is_spec_name
from .model import (
    ContainerEdits,
    Device,
    DeviceNode,
    Hook,
    IntelRdt,
    Mount,
    NetDevice,
    Spec,
)
from .names import (
    InvalidNameError,
    QualifiedName,
    ReaderCrash,
    annotation_key,
    is_qualified_name,
    parse_annotations,
    parse_qualified_name,
    split_device,
    split_kind,
    validate_class,
    validate_device_name,
    validate_vendor,
)
from .outcome import Accepted, Crashes, Rejected, SpecOutcome, Stage, decode_spec
from .reader import DEFAULT_SPEC_DIRS, Reader
from .readers import reader_library
from .registry import (
    DirectoryState,
    RegisteredDevice,
    Registry,
    Resolution,
    SpecDirectory,
    SpecFile,
    Unresolved,
    UnresolvedReason,
)
from .validation import minimum_version
from .writing import Filesystem, RealFilesystem, write_spec

__all__ = [
    "DEFAULT_SPEC_DIRS",
    "FILE_LIMIT",
    "LOAD_LIMIT_NODES",
    "NEWEST",
    "SPEC_LIMIT_BYTES",
    "SUPPORTED",
    "Accepted",
    "CachedReader",
    "ContainerEdits",
    "Crashes",
    "Device",
    "DeviceNode",
    "DirectoryState",
    "Filesystem",
    "Hook",
    "IntelRdt",
    "InvalidNameError",
    "Library",
    "LintFinding",
    "LintRule",
    "Mount",
    "NetDevice",
    "QualifiedName",
    "Reader",
    "ReaderCrash",
    "RealFilesystem",
    "RegisteredDevice",
    "Registry",
    "Rejected",
    "Resolution",
    "Spec",
    "SpecDirectory",
    "SpecFile",
    "SpecOutcome",
    "Stage",
    "Unresolved",
    "UnresolvedReason",
    "annotation_key",
    "decode_spec",
    "dump_spec",
    "injection_error",
    "is_qualified_name",
    "is_spec_name",
    "lint_spec",
    "minimum_version",
    "parse_annotations",
    "parse_qualified_name",
    "reader_library",
    "split_device",
    "split_kind",
    "validate_class",
    "validate_device_name",
    "validate_vendor",
    "write_spec",
]
