"""What is wrong with spec files and their directories as such, one finding each.

Owns: the join over readers (a file that one reader accepts another may reject) and the owner named
for each file. Must not know: which names are expected of a file.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator

from gpucdi.api.status import FileStatus
from gpucdi.cdi import (
    Accepted,
    DirectoryState,
    LintFinding,
    LintRule,
    SpecDirectory,
    SpecFile,
    lint_spec,
)
from gpucdi.findings import Cause, Finding, Severity, Who
from gpucdi.host import HostTree
from gpucdi.node.kinds import is_nvidia
from gpucdi.node.observation import NodeReader, Observation
from gpucdi.node.owners import RESTART, file_owner
from gpucdi.node.rejections import rejection_findings

_NAMES_TOLD = 3


def kind_files(observation: Observation, kind: str) -> tuple[FileStatus, ...]:
    """Return the files that define ``kind`` for at least one reader, with who cannot read them."""
    found: dict[str, FileStatus] = {}
    for reader in observation.readers:
        for file in reader.registry.files:
            if isinstance(file.outcome, Accepted) and file.outcome.spec.kind == kind:
                count = len(file.outcome.spec.devices)
                owner = file_owner(file.path, kind)
                found.setdefault(file.path, FileStatus(file.path, owner, count))
    return tuple(
        FileStatus(file.path, file.owner, file.devices, _refusers(observation, file.path))
        for file in found.values()
    )


def _refusers(observation: Observation, path: str) -> str:
    for reader in observation.readers:
        for file in reader.registry.files:
            if file.path == path and not isinstance(file.outcome, Accepted):
                return f"{reader.label}: {file.outcome.reason}"
    return ""


def file_findings(
    observation: Observation, host: HostTree, wanted: Collection[str]
) -> Iterator[Finding]:
    """Yield what is wrong with files and directories; ``wanted`` kinds weigh as errors."""
    # First, for what follows may be long, and rests on what was looked at.
    yield from _overfull_directories(observation)
    yield from rejection_findings(observation, host)
    yield from _conflicts(observation, wanted)
    yield from _directories(observation)
    yield from _lint(observation, host, wanted)


def _conflicts(observation: Observation, wanted: Collection[str]) -> Iterator[Finding]:
    by_files: dict[tuple[str, ...], dict[str, None]] = {}
    for reader in observation.readers:
        for name, paths in reader.registry.conflicts.items():
            by_files.setdefault(tuple(sorted(paths)), {})[name] = None
    for paths, found in by_files.items():
        names = tuple(found)
        kind = names[0].partition("=")[0]
        listed = ", ".join(names[:_NAMES_TOLD]) + (" …" if len(names) > _NAMES_TOLD else "")
        yield Finding(
            cause=Cause.SAME_DIR_CONFLICT,
            severity=Severity.ERROR if kind in wanted else Severity.WARNING,
            message=f"{listed}: defined in {' and '.join(paths)}, so that every reader drops it",
            advice=f"remove one of the two files ({_least_official(paths)} is the likelier copy)",
            who=Who.ADMIN,
            file=paths[-1],
            kind=kind,
            names=names,
        )


def _least_official(paths: tuple[str, ...]) -> str:
    unowned = [path for path in paths if file_owner(path, "") not in RESTART]
    return (unowned or list(paths))[-1]


_DIRECTORY_TEXTS = {
    DirectoryState.SYMLINK_NOT_READ: "is a symbolic link, which {who} does not follow",
    DirectoryState.NOT_A_DIRECTORY: "is no directory; {who} reads no spec from it",
    DirectoryState.UNREADABLE: "is not readable for {who}",
    DirectoryState.NOT_REACHED: "is not reached by {who}: the scan ends at an earlier directory",
}


def _directories(observation: Observation) -> Iterator[Finding]:
    told: dict[tuple[str, DirectoryState], list[str]] = {}
    for reader in observation.readers:
        for directory in reader.registry.directories:
            if directory.state in _DIRECTORY_TEXTS and not hidden_by_missing(reader, directory):
                key = (directory.path, directory.state)
                told.setdefault(key, []).append(reader.label)
    yield from _missing_directories(observation)
    for (path, state), labels in told.items():
        yield Finding(
            cause=Cause.SPEC_DIR_NOT_READ,
            severity=Severity.WARNING,
            message=_DIRECTORY_TEXTS[state].format(who=", ".join(labels)),
            advice="make it a plain directory of mode 0755, or correct the list of spec directories",
            who=Who.ADMIN,
            file=path,
        )


def _overfull_directories(observation: Observation) -> Iterator[Finding]:
    """Yield the directories that hold more than is looked at (``docs/cdi.md``: the bounds)."""
    told = {
        directory.path: directory.detail
        for reader in observation.readers
        for directory in reader.registry.directories
        if directory.was_read and directory.detail
    }
    for path, detail in told.items():
        yield Finding(
            cause=Cause.UNDETERMINED,
            severity=Severity.WARNING,
            message=f"holds more than is looked at: {detail}",
            advice="move what is no spec file out of it, and merge specs of one kind into one file",
            who=Who.ADMIN,
            file=path,
        )


def hidden_by_missing(reader: NodeReader, directory: SpecDirectory) -> bool:
    """Tell whether a reader gave up before this directory because an earlier one is missing.

    Libraries before 0.5.1 do (cncf-tags/container-device-interface issue 78).
    """
    return directory.state is DirectoryState.NOT_REACHED and any(
        other.state is DirectoryState.MISSING and other.priority < directory.priority
        for other in reader.registry.directories
    )


def has_no_directory(reader: NodeReader) -> bool:
    """Tell whether none of a reader's directories exists."""
    found = reader.registry.directories
    return bool(found) and all(each.state is DirectoryState.MISSING for each in found)


def _missing_directories(observation: Observation) -> Iterator[Finding]:
    """Yield which missing directories matter; one among others that are read does not."""
    told: dict[tuple[str, str], list[str]] = {}
    for reader in observation.readers:
        directories = reader.registry.directories
        hidden = [each.path for each in directories if hidden_by_missing(reader, each)]
        missing = [each.path for each in directories if each.state is DirectoryState.MISSING]
        if hidden:
            text = f"does not exist, and {{who}} gives up there: {', '.join(hidden)} is not read"
            told.setdefault((missing[0], text), []).append(reader.label)
        elif has_no_directory(reader):
            text = f"does not exist, nor does any other directory of {{who}} ({', '.join(missing)})"
            told.setdefault((missing[-1], text), []).append(reader.label)
    for (path, text), labels in told.items():
        yield Finding(
            cause=Cause.SPEC_DIR_MISSING,
            severity=Severity.WARNING if "gives up" in text else Severity.INFO,
            message=text.format(who=", ".join(labels)),
            advice=f"make it: mkdir -p -m 0755 {path}",
            who=Who.ADMIN,
            file=path,
        )


_LINT_CAUSES = {
    LintRule.DEVICE_MISSING: Cause.DEVICE_NODE_MISSING,
    LintRule.NOT_A_DEVICE: Cause.DEVICE_NODE_MISSING,
    LintRule.TYPE_MISMATCH: Cause.DEVICE_NUMBER_CHANGED,
    LintRule.NUMBER_MISMATCH: Cause.DEVICE_NUMBER_CHANGED,
    LintRule.MOUNT_SOURCE_MISSING: Cause.MOUNT_SOURCE_MISSING,
    LintRule.HOOK_MISSING: Cause.HOOK_MISSING,
    LintRule.HOOK_NOT_EXECUTABLE: Cause.HOOK_MISSING,
    LintRule.UNREADABLE: Cause.UNDETERMINED,
}


def _lint(observation: Observation, host: HostTree, wanted: Collection[str]) -> Iterator[Finding]:
    for file in unique_files(observation):
        if file.spec is None or not is_nvidia(file.spec.kind):
            continue
        # One thing missing on the host is named by many devices; it is one finding.
        by_thing: dict[tuple[LintRule, str], list[LintFinding]] = {}
        for problem in lint_spec(file.spec, host):
            by_thing.setdefault((problem.rule, problem.path), []).append(problem)
        for problems in by_thing.values():
            yield _lint_finding(file, file.spec.kind, problems, wanted)


def _lint_finding(
    file: SpecFile, kind: str, problems: list[LintFinding], wanted: Collection[str]
) -> Finding:
    first = problems[0]
    fails = first.fails and kind in wanted
    return Finding(
        cause=_LINT_CAUSES[first.rule],
        severity=Severity.ERROR if fails else Severity.WARNING,
        message=first.message,
        advice=advice_for(file.path, kind),
        who=who_mends(file.path, kind),
        file=file.path,
        key=first.key,
        kind=kind,
        names=tuple(dict.fromkeys(problem.device for problem in problems if problem.device)),
    )


def advice_for(path: str, kind: str) -> str:
    """Return the next step that has the file written anew."""
    return RESTART.get(file_owner(path, kind), "generate the file anew with the node's nvidia-ctk")


def who_mends(path: str, kind: str) -> Who:
    """Return whose step that is."""
    return Who.COMPONENT if file_owner(path, kind) in RESTART else Who.ADMIN


def unique_files(observation: Observation) -> Iterable[SpecFile]:
    """Return each file once, as a reader has it that accepts it, if one does."""
    found: dict[str, SpecFile] = {}
    for reader in observation.readers:
        for file in reader.registry.files:
            if isinstance(file.outcome, Accepted) or file.path not in found:
                found[file.path] = file
    return found.values()
