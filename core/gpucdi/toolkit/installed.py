"""The toolkit that a runtime belongs to: its directory, version and companion programs.

Owns: asking programs for their version, and what files tell about it otherwise. Must not know:
configuration values.

Sources: NVIDIA/nvidia-container-toolkit ``internal/info/version.go``, ``packaging/debian/control``;
which release brought a wrapper's shape: the tagged trees v1.11.0 to v1.20.2.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Sequence

from gpucdi.engines.versions import Release, release
from gpucdi.findings import UNKNOWN, Source, Sourced, SourceKind
from gpucdi.host import HostTree
from gpucdi.programs import Programs
from gpucdi.toolkit.locate import SEARCH_PATH, locate
from gpucdi.toolkit.model import Toolkit
from gpucdi.toolkit.wrapper import Wrapper

DPKG_STATUS = "/var/lib/dpkg/status"
_PACKAGE = "nvidia-container-toolkit-base"
_FIELD = re.compile(r"^(Package|Status|Version): (.*)$", re.MULTILINE)
_STATED = re.compile(
    r"^NVIDIA Container (?:Toolkit CLI|Runtime(?: Hook)?) version (\S+)", re.MULTILINE
)


def read_toolkit(
    host: HostTree,
    programs: Programs,
    runtime: str,
    wrapper: Wrapper | None,
    directories: Sequence[str] = SEARCH_PATH,
) -> Toolkit:
    """Describe the toolkit around the runtime at the host path ``runtime``."""
    directory = posixpath.dirname(runtime)
    nearby = (directory, *directories)
    ctk = locate(host, "nvidia-ctk", nearby)
    hook = locate(host, "nvidia-cdi-hook", nearby) or ctk
    since, before = _bounds(wrapper)
    return Toolkit(
        directory=directory,
        version=_stated_version(programs, directory, runtime, ctk)
        or _packaged_version(host, directory)
        or Sourced(None, UNKNOWN),
        ctk=ctk,
        hook=hook,
        since=since,
        before=before,
    )


def _stated_version(
    programs: Programs, directory: str, runtime: str, ctk: str | None
) -> Sourced[str | None] | None:
    asked = [runtime, runtime.removesuffix(".real")]
    # A program from elsewhere in the PATH may belong to another toolkit and proves nothing.
    if ctk is not None and posixpath.dirname(ctk) == directory:
        asked.insert(0, ctk)
    for program in dict.fromkeys(asked):
        stated = _STATED.search(programs.version_output(program) or "")
        if stated is not None and release(stated[1]) is not None:
            return Sourced(stated[1], Source(SourceKind.PROCESS, file=program))
    return None


def _packaged_version(host: HostTree, directory: str) -> Sourced[str | None] | None:
    """Return the version of the installed Debian package, which puts its programs in /usr/bin."""
    if directory != "/usr/bin":
        return None
    try:
        text = host.read(DPKG_STATUS).decode("utf-8", "replace")
    except OSError:
        return None
    for paragraph in text.split("\n\n"):
        fields = dict(_FIELD.findall(paragraph))
        is_installed = fields.get("Status", "").endswith(" ok installed")
        if fields.get("Package") == _PACKAGE and is_installed:
            # Debian's own revision follows the last dash; `~rc.1` marks a pre-release.
            version = fields.get("Version", "").rpartition("-")[0].replace("~", "-")
            if release(version) is not None:
                return Sourced(version, Source(SourceKind.FILE, DPKG_STATUS, _PACKAGE))
    return None


def _bounds(wrapper: Wrapper | None) -> tuple[Release | None, Release | None]:
    """Return what a wrapper's shape says: at least the first release, older than the second."""
    if wrapper is None:
        return None, None
    if "NVIDIA_CTK_CONFIG_FILE_PATH" in wrapper.environment:
        if not wrapper.checks_module:
            return (1, 18, 0), None
        return ((1, 18, 1), None) if wrapper.warns_on_stderr else ((1, 18, 0), (1, 18, 1))
    if "XDG_CONFIG_HOME" in wrapper.environment:
        return None, (1, 18, 0)
    return None, None
