"""Requests per release: the reference's tables of observed behaviour, row by row."""

from __future__ import annotations

import pytest

from gpucdi.engines import EngineName, Handler
from gpucdi.findings import Source, Sourced, SourceKind
from gpucdi.toolkit import (
    ContainerRequest,
    HandlerRuntime,
    Mode,
    Platform,
    Requested,
    RequestMount,
    RequestOrigin,
    Toolkit,
    ToolkitConfig,
    request_names,
)

EARLY = "failed to create NVIDIA Container Runtime: failed to construct OCI spec modifier: "
LATE = "could not apply required modification to OCI specification: error modifying OCI spec: "
U = "GPU-4044aeb5-b7e4-8cb0-69a8-40490ce01a2f"
OLD, V180, V181, V182, V190, V200, V201, V202 = (
    "1.17.4",
    "1.18.0",
    "1.18.1",
    "1.18.2",
    "1.19.0",
    "1.20.0",
    "1.20.1",
    "1.20.2",
)
ALL = (OLD, V180, V181, V182, V190, V200, V201, V202)
NEW = ALL[1:]


def config(
    *,
    kind: str = "nvidia.com/gpu",
    mounts: bool = False,
    unprivileged: bool = True,
    swarm: tuple[str, ...] = (),
    prefixes: tuple[str, ...] = ("cdi.k8s.io/",),
) -> ToolkitConfig:
    return ToolkitConfig(
        "/etc/c.toml",
        exists=True,
        default_kind=Sourced(kind),
        accept_volume_mounts=Sourced(mounts),
        accept_envvar_when_unprivileged=Sourced(unprivileged),
        swarm_resources=Sourced(swarm),
        annotation_prefixes=Sourced(prefixes),
    )


def ask(
    version: str | None,
    mode: Mode,
    env: str | None = None,
    *,
    settings: ToolkitConfig | None = None,
    mount: tuple[str, ...] = (),
    platform: Platform = Platform.NVML,
    privileged: bool = False,
    annotations: dict[str, str] | None = None,
    more: tuple[str, ...] = (),
) -> Requested:
    runtime = HandlerRuntime(
        Handler("nvidia", EngineName.CONTAINERD),
        program="/usr/bin/nvidia-container-runtime",
        is_nvidia=True,
        toolkit=Toolkit("/usr/bin", Sourced(version, Source(SourceKind.PROCESS))),
        config=settings or config(),
        mode=Sourced(mode),
    )
    environment = more if env is None else (f"NVIDIA_VISIBLE_DEVICES={env}", *more)
    root = "/var/run/nvidia-container-devices/"
    request = ContainerRequest(
        environment,
        annotations or {},
        tuple(RequestMount("/dev/null", root + path) for path in mount),
        privileged,
    )
    return request_names(runtime, request, platform)


def test_row_1_the_default_kind_goes_before_a_bare_name() -> None:
    for version in ALL:
        found = ask(version, Mode.CDI, U, settings=config(kind="management.nvidia.com/gpu"))
        assert found.names == (f"management.nvidia.com/gpu={U}",)
        assert found.origin is RequestOrigin.ENVIRONMENT


@pytest.mark.parametrize("version", ALL)
@pytest.mark.parametrize(
    ("env", "names"),
    [(U, (U,)), ("0", ("0",)), ("all", ("all",)), ("all,foo", ("all",)), ("0,all", ("all",))],
)
def test_row_2_plain_names_and_all(version: str, env: str, names: tuple[str, ...]) -> None:
    assert ask(version, Mode.CDI, env).names == tuple(f"nvidia.com/gpu={name}" for name in names)


@pytest.mark.parametrize(
    ("env", "rest"),
    [
        ("none", ()),
        ("0,none", ()),
        ("none,all", ()),
        ("0,0", ("nvidia.com/gpu=0",)),
        (f"{U},{U}", (f"nvidia.com/gpu={U}",)),
        ("nvidia.com/gpu=0,nvidia.com/gpu=0", ("nvidia.com/gpu=0",)),
    ],
)
def test_row_3_none_and_duplicates_ask_for_a_device_that_is_not_there(
    env: str, rest: tuple[str, ...]
) -> None:
    for version in (OLD, V180, V181):
        assert ask(version, Mode.CDI, env).names == ("nvidia.com/gpu=", *rest)
    for version in (V182, V190, V200, V202):
        assert ask(version, Mode.CDI, env).names == ("nvidia.com/gpu=none", *rest)


@pytest.mark.parametrize("version", ALL)
@pytest.mark.parametrize("env", ["void", "", None, "0,void", " , "])
def test_row_4_void_and_nothing_leave_the_container_alone(version: str, env: str | None) -> None:
    found = ask(version, Mode.CDI, env)
    assert found == Requested(Mode.CDI)


@pytest.mark.parametrize("version", ALL)
def test_row_5_an_old_cuda_image_asks_for_all_unless_it_states_requirements(version: str) -> None:
    assert ask(version, Mode.CDI, more=("CUDA_VERSION=11.0",)).names == ("nvidia.com/gpu=all",)
    more = ("CUDA_VERSION=11.0", "NVIDIA_REQUIRE_CUDA=cuda>=11.0")
    assert ask(version, Mode.CDI, more=more).names == ()


@pytest.mark.parametrize("version", ALL)
def test_row_7_a_qualified_name_stays_as_it_is(version: str) -> None:
    assert ask(version, Mode.CDI, "foo.com/bar=x").names == ("foo.com/bar=x",)


def test_row_8_a_vendor_of_one_letter_kills_the_runtime_up_to_1_20_0() -> None:
    for version in (OLD, V180, V182, V200):
        assert ask(version, Mode.CDI, "a/b=0").crashes
    for version in (V201, V202):
        assert ask(version, Mode.CDI, "a/b=0").names == ("a/b=0",)


def test_row_10_the_automatic_kind_tolerates_no_other() -> None:
    mixed = (
        "requesting a CDI device with vendor 'runtime.nvidia.com' is not supported when "
        "requesting other CDI devices"
    )
    env = "runtime.nvidia.com/gpu=0,nvidia.com/gpu=0"
    for version in (OLD, V180, V182):
        assert ask(version, Mode.CDI, env).error == EARLY + mixed
    for version in (V190, V200, V202):
        assert ask(version, Mode.CDI, env).error == LATE + mixed


def test_row_11_an_unqualified_annotation_fails_up_to_1_17_and_gets_the_kind_later() -> None:
    found = ask(OLD, Mode.CDI, "all", annotations={"cdi.k8s.io/a": "0"})
    assert found.error == (
        f"{EARLY}failed to get required devices from OCI specification: failed to parse container "
        'annotations: invalid device name "0" in annotation "cdi.k8s.io/a"'
    )
    for version in NEW:
        found = ask(version, Mode.CDI, "all", annotations={"cdi.k8s.io/a": "0"})
        assert found.names == ("nvidia.com/gpu=0",)
        assert found.origin is RequestOrigin.ANNOTATIONS


def test_row_12_an_empty_annotation_is_a_request_for_nothing_and_fails() -> None:
    assert 'invalid device name ""' in str(
        ask(OLD, Mode.CDI, annotations={"cdi.k8s.io/a": ""}).error
    )
    assert ask(V181, Mode.CDI, annotations={"cdi.k8s.io/a": ""}).names == ("nvidia.com/gpu=",)
    assert ask(V200, Mode.CDI, annotations={"cdi.k8s.io/a": ""}).names == ("nvidia.com/gpu=none",)


@pytest.mark.parametrize("path", ["0", "cdi/nvidia.com/gpu=0"])
def test_rows_13_and_15_mounts_of_any_name_count_from_1_18_on(path: str) -> None:
    settings = config(mounts=True)
    assert ask(OLD, Mode.CDI, settings=settings, mount=(path,)).names == ()
    for version in NEW:
        found = ask(version, Mode.CDI, settings=settings, mount=(path,))
        assert found.names == ("nvidia.com/gpu=0",)
        assert found.origin is RequestOrigin.MOUNTS


@pytest.mark.parametrize("version", ALL)
def test_a_mount_of_three_parts_counts_in_every_release(version: str) -> None:
    found = ask(version, Mode.CDI, "1", settings=config(mounts=True), mount=("cdi/v.com/cc/d",))
    assert found.names == ("v.com/cc=d",)


@pytest.mark.parametrize("version", ALL)
def test_row_17_an_unprivileged_container_may_be_refused(version: str) -> None:
    settings = config(unprivileged=False)
    found = ask(version, Mode.CDI, "all", settings=settings)
    assert found.names == ()
    assert found.ignored is not None
    allowed = ask(version, Mode.CDI, "all", settings=settings, privileged=True)
    assert allowed.names == ("nvidia.com/gpu=all",)


def test_row_18_auto_is_legacy_up_to_1_17_and_just_in_time_later() -> None:
    assert ask(OLD, Mode.AUTO, U) == Requested(Mode.LEGACY)
    for version in NEW:
        found = ask(version, Mode.AUTO, U)
        assert (found.mode, found.names) == (Mode.JIT_CDI, (f"runtime.nvidia.com/gpu={U}",))


@pytest.mark.parametrize("version", ALL)
def test_row_19_auto_is_cdi_for_qualified_names(version: str) -> None:
    found = ask(version, Mode.AUTO, "nvidia.com/gpu=0")
    assert (found.mode, found.names) == (Mode.CDI, ("nvidia.com/gpu=0",))


@pytest.mark.parametrize("env", ["void", U])
def test_row_21_auto_sees_annotations_from_1_18_on(env: str) -> None:
    annotations = {"cdi.k8s.io/a": "nvidia.com/gpu=0"}
    assert ask(OLD, Mode.AUTO, env, annotations=annotations).mode is Mode.LEGACY
    for version in NEW:
        found = ask(version, Mode.AUTO, env, annotations=annotations)
        assert (found.mode, found.names) == (Mode.CDI, ("nvidia.com/gpu=0",))


def test_row_28_swarm_resources_replace_the_variable_from_1_19_on() -> None:
    settings = config(swarm=("DOCKER_RESOURCE_GPU",))
    more = ("DOCKER_RESOURCE_GPU=zz",)
    for version in (OLD, V180, V181, V182):
        found = ask(version, Mode.CDI, "all", settings=settings, more=more)
        assert found.names == ("nvidia.com/gpu=all",)
    for version in (V190, V200, V202):
        found = ask(version, Mode.CDI, "all", settings=settings, more=more)
        assert found.names == ("nvidia.com/gpu=zz",)


@pytest.mark.parametrize("env", ["void", None])
def test_row_29_the_void_mount_is_a_device_name_before_1_20_2(env: str | None) -> None:
    settings = config(mounts=True)
    assert ask(OLD, Mode.CDI, env, settings=settings, mount=("void",)).names == ()
    for version in (V182, V200, V201):
        found = ask(version, Mode.CDI, env, settings=settings, mount=("void",))
        assert found.names == ("nvidia.com/gpu=void",)
    assert ask(V202, Mode.CDI, env, settings=settings, mount=("void",)).names == ()


def test_the_void_mount_of_1_20_2_empties_the_mounts_and_the_environment_still_counts() -> None:
    found = ask(V202, Mode.CDI, "0", settings=config(mounts=True), mount=("1", "void"))
    assert found.names == ("nvidia.com/gpu=0",)


def test_row_31_mig_management_is_for_privileged_containers_from_1_20_1_on() -> None:
    more = ("NVIDIA_MIG_MONITOR_DEVICES=all",)
    assert ask(V200, Mode.AUTO, "0", more=more).error is None
    for version in (V201, V202):
        refused = ask(version, Mode.AUTO, "0", more=more)
        assert refused.error == (
            f"{LATE}failed to create the automatic CDI modifier: invalid MIG capability request: "
            "cannot set NVIDIA_MIG_CONFIG_DEVICES or NVIDIA_MIG_MONITOR_DEVICES in a "
            "non-privileged container"
        )
        allowed = ask(version, Mode.AUTO, "0", more=more, privileged=True)
        assert allowed.extra == ("mode=mig-caps,id=monitor",)
        scoped = ask(version, Mode.AUTO, "0:1", more=more, privileged=True)
        assert "scoped to specific MIG devices" in str(scoped.error)


@pytest.mark.parametrize("version", ALL)
def test_an_environment_entry_without_equals_sign_fails_in_every_mode(version: str) -> None:
    for mode in Mode:
        found = ask(version, mode, "0", more=("BADENV",))
        assert found.error == f"{EARLY}invalid environment variable: BADENV"


def test_the_last_assignment_of_a_variable_counts() -> None:
    assert ask(V200, Mode.CDI, "0", more=("NVIDIA_VISIBLE_DEVICES=1",)).names == (
        "nvidia.com/gpu=1",
    )


def test_auto_is_csv_on_a_tegra_machine() -> None:
    assert ask(V200, Mode.AUTO, "0", platform=Platform.TEGRA).mode is Mode.CSV


def test_an_unknown_release_answers_where_all_releases_agree() -> None:
    assert ask(None, Mode.CDI, "0").names == ("nvidia.com/gpu=0",)
    assert ask(None, Mode.CDI, "none").unknown is not None
    assert ask(None, Mode.AUTO, "0").mode is None


def test_a_release_that_was_never_looked_at_is_unknown() -> None:
    assert ask("1.99.0", Mode.CDI, "0").unknown is not None
    assert ask("1.12.0", Mode.CDI, "0").unknown is not None


def test_no_prefixes_means_no_annotations() -> None:
    settings = config(prefixes=())
    found = ask(V200, Mode.CDI, settings=settings, annotations={"cdi.k8s.io/a": "v.com/c=d"})
    assert found.names == ()


def test_a_handler_that_is_no_nvidia_runtime_asks_for_nothing() -> None:
    runtime = HandlerRuntime(Handler("runc", EngineName.CONTAINERD), None, is_nvidia=False)
    request = ContainerRequest(("NVIDIA_VISIBLE_DEVICES=all",))
    assert request_names(runtime, request) == Requested(None)
