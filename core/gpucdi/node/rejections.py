"""Spec files that a reader does not take as they are, and whether a newer one would.

Owns: the cause of a rejection, for readers of every age. Must not know: which names are expected.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from gpucdi.cdi import (
    NEWEST,
    SUPPORTED,
    Accepted,
    Crashes,
    Library,
    Rejected,
    SpecFile,
    Stage,
    decode_spec,
)
from gpucdi.findings import Cause, Finding, Severity, Who
from gpucdi.host import HostTree
from gpucdi.node.observation import NodeReader, Observation
from gpucdi.node.owners import RESTART, file_owner

_LAST_LENIENT = Library("1.1.0")
_NEEDED = re.compile(r"must be at least v([0-9]+\.[0-9]+\.[0-9]+)")


def rejection_findings(observation: Observation, host: HostTree) -> Iterator[Finding]:
    """Yield which files which readers do not take, and why."""
    yield from _rejections(observation, host)
    yield from _unknown_versions(observation)


def rejected_as_too_new(host: HostTree, file: SpecFile, library: Library) -> bool:
    """Tell whether a newer library would accept what ``library`` rejected.

    From 1.1.1 on the decoder is stricter than before, so both ends of the change are asked.
    """
    if _brought_by(file, library) is not None:
        return True
    try:
        content = host.read(file.path)
    except OSError:
        return False
    newer = (version for version in (_LAST_LENIENT, NEWEST) if version > library)
    return any(isinstance(decode_spec(content, file.path, version), Accepted) for version in newer)


def _brought_by(file: SpecFile, library: Library) -> str | None:
    """Return the version of CDI that brought what a reader older than the modelled ones rejects.

    Those are judged as the oldest modelled one, which compares a file's features with the version
    that it declares; they themselves did not know the features.
    """
    if library >= SUPPORTED[0] or not isinstance(file.outcome, Rejected):
        return None
    found = _NEEDED.search(file.outcome.reason)
    return found[1] if found and library < Library(found[1]) else None


def _unknown_versions(observation: Observation) -> Iterator[Finding]:
    """Find files whose version a reader older than the modelled ones does not know.

    A library of version x.y knows the versions up to x.y.0 (cncf-tags/container-device-interface
    ``pkg/cdi/version.go``, before it ``pkg/cdi/spec.go``).
    """
    for reader in observation.readers:
        library = reader.reader.library
        if library >= SUPPORTED[0]:
            continue
        for file in reader.registry.files:
            version = file.spec.cdi_version if file.spec else ""
            if version and Library(version) > library:
                yield _rejected(
                    Cause.SPEC_TOO_NEW_FOR_READER,
                    f"too new for {reader.label}: it declares CDI {version}, and that reader's "
                    f"library is {library}",
                    file.path,
                )


def _rejections(observation: Observation, host: HostTree) -> Iterator[Finding]:
    # Readers of different age may reject one file in the same words for different causes.
    told: dict[tuple[str, str, str | None], list[NodeReader]] = {}
    files: dict[tuple[str, str, str | None], SpecFile] = {}
    for reader in observation.readers:
        for file in reader.registry.files:
            if not isinstance(file.outcome, Accepted):
                needed = _brought_by(file, reader.reader.library)
                key = (file.path, file.outcome.reason, needed)
                told.setdefault(key, []).append(reader)
                files[key] = file
    # A long list is cut when it is shown: what nobody looked at must not fall behind its end.
    for key in sorted(told, key=lambda key: not _is_kept_out(files[key])):
        yield _rejection(host, files[key], key[1], told[key])


def _is_kept_out(file: SpecFile) -> bool:
    """Tell whether a bound of ours kept the file from being judged; a reader may take it."""
    return isinstance(file.outcome, Rejected) and file.outcome.stage is Stage.BOUND


def _rejection(host: HostTree, file: SpecFile, reason: str, readers: list[NodeReader]) -> Finding:
    who = ", ".join(reader.label for reader in readers)
    library = readers[0].reader.library
    needed = _brought_by(file, library)
    if isinstance(file.outcome, Crashes):
        cause, text = Cause.SPEC_REJECTED, f"this file makes {who} crash or hang: {reason}"
    elif _is_kept_out(file):
        cause, text = Cause.UNDETERMINED, f"whether {who} takes it is not known: {reason}"
    elif not _is_readable(host, file.path):
        cause, text = Cause.SPEC_NOT_READABLE, f"not readable for {who}: {reason}"
    elif needed is not None:
        cause = Cause.SPEC_TOO_NEW_FOR_READER
        text = (
            f"too new for {who}: it holds what CDI {needed} brought, and the library is {library}"
        )
    elif rejected_as_too_new(host, file, library):
        cause, text = Cause.SPEC_TOO_NEW_FOR_READER, f"too new for {who}: {reason}"
    else:
        cause, text = Cause.SPEC_REJECTED, f"rejected whole by {who}: {reason}"
    return _rejected(cause, text, file.path)


def _rejected(cause: Cause, message: str, path: str) -> Finding:
    owner = file_owner(path, "")
    return Finding(
        cause=cause,
        severity=Severity.WARNING,
        message=message,
        advice=RESTART.get(owner, "correct the file, or move it out of the directory"),
        who=Who.COMPONENT if owner in RESTART else Who.ADMIN,
        file=path,
    )


def _is_readable(host: HostTree, path: str) -> bool:
    try:
        host.read(path)
    except OSError:
        return False
    return True
