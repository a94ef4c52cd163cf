"""Wordings of the CDI library and of those who call it to inject devices.

Owns: the rows of those wordings. Must not know: why a device does not resolve.

Sources: cncf-tags/container-device-interface ``pkg/cdi/{cache,spec,device,container-edits_unix,
annotations}.go``, ``pkg/parser/parser.go``; containerd ``internal/cri/{opts,server}``; moby
``daemon/cdi.go``; NVIDIA/nvidia-container-toolkit ``internal/modifier/cdi.go``.
"""

from __future__ import annotations

import re

from gpucdi.failures.formats import DETAIL, PATH, QUOTE, Format, loose, spaced
from gpucdi.failures.model import EngineFamily, Resolver, Stage, Symptom

_E, _R, _S, _Y = EngineFamily, Resolver, Stage, Symptom

FIRST: tuple[Format, ...] = (
    Format(
        "S07",
        _Y.GENERATE_FAILED,
        spaced(rf"failed to create the automatic CDI modifier: {DETAIL}"),
        _S.UNKNOWN,
        resolver=_R.NVIDIA_RUNTIME,
        usually=_S.START,
    ),
    Format(
        "S01",
        _Y.MIXED_AUTOMATIC,
        spaced(
            rf"requesting a CDI device with vendor {QUOTE}?runtime\.nvidia\.com{QUOTE}? is not "
            r"supported when requesting other CDI devices"
        ),
        _S.UNKNOWN,
        resolver=_R.NVIDIA_RUNTIME,
        usually=_S.START,
    ),
    Format(
        "M38",
        _Y.CDI_DISABLED,
        spaced(
            r"CDI devices (?P<names>)\([^()]*\) requested but CDI support is explicitly disabled"
        ),
        _S.CREATE,
        _E.CONTAINERD,
        _R.ENGINE,
    ),
    Format(
        "M01",
        _Y.UNRESOLVABLE,
        re.compile(loose("unresolvable CDI devices") + r"(?P<names>)", re.IGNORECASE),
        _S.UNKNOWN,
    ),
    Format(
        "M05",
        _Y.UNRESOLVABLE,
        re.compile(loose("could not resolve CDI devices:") + r"(?P<names>)"),
        _S.START,
        resolver=_R.NVIDIA_RUNTIME,
        blanks=True,
    ),
    Format(
        "S02",
        _Y.NAME_CONFLICT,
        spaced(
            rf"conflicting device (?P<names>){QUOTE}[^\"]+{QUOTE} "
            rf"\(specs {PATH}(?P<detail>[^()]*)\)"
        ),
        _S.UNKNOWN,
    ),
    Format(
        "M12",
        _Y.SPEC_LOAD_FAILED,
        spaced(
            rf"failed to load CDI Spec:? (?:failed to (?:parse|read) CDI Spec {PATH}[:,] )?{DETAIL}"
        ),
        _S.UNKNOWN,
    ),
    Format(
        "M11",
        _Y.SPEC_LOAD_FAILED,
        spaced(rf"failed to (?:parse|read) CDI Spec {PATH}[:,] {DETAIL}"),
        _S.UNKNOWN,
    ),
    Format(
        "S03",
        _Y.MALFORMED_NAME,
        spaced(rf"failed to parse (?:CDI device|container) annotations: {DETAIL}"),
        _S.UNKNOWN,
        usually=_S.CREATE,
    ),
    Format(
        "S04",
        _Y.MALFORMED_NAME,
        spaced(rf"unqualified device {QUOTE}(?P<subject>[^\"'`]*){QUOTE}, (?P<detail>missing \w+)"),
        _S.UNKNOWN,
    ),
    Format(
        "M22",
        _Y.NODE_MISSING,
        spaced(
            rf"failed to stat CDI host device {PATH}(?::? (?P<detail>no such file or directory"
            r"|not a device node|permission denied))?"
        ),
        _S.UNKNOWN,
        usually=_S.CREATE,
    ),
    Format(
        "S05",
        _Y.NODE_MISSING,
        spaced(rf"CDI device \({PATH}[^()]*\), (?P<detail>host type mismatch[^\n]{{0,20}})"),
        _S.UNKNOWN,
        usually=_S.CREATE,
    ),
    Format(
        "S06",
        _Y.CDI_DISABLED,
        spaced(r"no CDI specification directories specified"),
        _S.UNKNOWN,
        _E.DOCKER,
        _R.ENGINE,
        usually=_S.START,
    ),
    Format(
        "M10",
        _Y.CDI_DISABLED,
        spaced(r"could not select device driver \"cdi\" with capabilities: \[\[?[^\]]*\]?\]"),
        _S.START,
        _E.DOCKER,
        _R.ENGINE,
    ),
    Format(
        "M43",
        _Y.NO_SPEC,
        spaced(r"AMD CDI spec not found"),
        _S.START,
        _E.DOCKER,
        _R.ENGINE,
        kind="amd.com/gpu",
    ),
    Format(
        "M56",
        _Y.NOT_CDI_AWARE,
        spaced(
            rf"(?:(?<![\w'])stat (?P<names>)|invalid device mode: (?P<names2>)"
            rf"|custom device {QUOTE}(?P<names3>))"
            r"(?=[A-Za-z][\w.-]*\.[\w.-]+/[\w.-]+=)"
        ),
        _S.UNKNOWN,
        usually=_S.CREATE,
    ),
)

# Frames around an inner reason that no other row knows, and a shape that needs no frame.
LAST: tuple[Format, ...] = (
    Format(
        "M47",
        _Y.MALFORMED_NAME,
        spaced(
            r"(?<![\w./=-])(?P<names>)(?=(?P<subject>[A-Za-z][\w-]*\.[\w.-]+/[\w.-]+)=(?P=subject)=)"
        ),
        _S.UNKNOWN,
    ),
    Format(
        "S08",
        _Y.INJECTION_FAILED,
        spaced(rf"CDI device injection failed: {DETAIL}"),
        _S.UNKNOWN,
        usually=_S.CREATE,
    ),
    Format(
        "S09",
        _Y.INJECTION_FAILED,
        spaced(rf"failed to inject (?:CDI )?devices: {DETAIL}"),
        _S.UNKNOWN,
        usually=_S.START,
    ),
    Format(
        "S09",
        _Y.INJECTION_FAILED,
        spaced(rf"setting up CDI devices: {DETAIL}"),
        _S.UNKNOWN,
        _E.PODMAN,
        _R.ENGINE,
        usually=_S.CREATE,
    ),
)
