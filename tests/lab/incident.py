"""The node of the first incident, with real programs: what the GPU Operator and an admin left.

Two config.toml disagree: the one in ``/etc`` (mode auto, kind nvidia.com/gpu) is not the one that
the wrapper points to (mode cdi, kind management.nvidia.com/gpu), and the management kind has just
the device ``all``. Owns: that description and the spec files. Must not know: Kubernetes.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping

import yaml
from tests.lab import hardware
from tests.lab.node import Node, NodeDescription
from tests.lab.toolkits import (
    MANAGEMENT_KIND,
    OPERATOR_FOLDER,
    PACKAGE_CONFIG,
    OperatorToolkit,
    ToolkitConfig,
)

MACHINE = hardware.TWO_GPUS
UUID = hardware.UUID_0
SPEC_DIRS = ("/etc/cdi", "/var/run/cdi")
MANAGEMENT_SPEC = "/var/run/cdi/management.nvidia.com-gpu.yaml"
ADMIN_SPEC = "/etc/cdi/nvidia.yaml"
PLUGIN_SPEC = "/var/run/cdi/k8s.device-plugin.nvidia.com-gpu.json"
CONTAINERD_CONFIG = "/etc/containerd/config.toml"
CONTAINERD_DROP_IN = "/etc/containerd/conf.d/99-nvidia.toml"
HANDLERS = {
    "nvidia": "nvidia-container-runtime",
    "nvidia-cdi": "nvidia-container-runtime.cdi",
    "nvidia-legacy": "nvidia-container-runtime.legacy",
}
RUNTIME_ERROR = (
    "could not apply required modification to OCI specification: error modifying OCI spec: "
    f"failed to inject CDI devices: unresolvable CDI devices {MANAGEMENT_KIND}={UUID}"
)
POD_MESSAGE = (
    "failed to create containerd task: failed to create shim task: OCI runtime create failed: "
    + RUNTIME_ERROR
)


def description(
    toolkit: OperatorToolkit | None = None, files: Mapping[str, str | bytes] | None = None
) -> NodeDescription:
    """Describe the node without its spec files; ``files`` are added."""
    toolkit = toolkit or OperatorToolkit("1.18.2")
    return NodeDescription(
        hardware=MACHINE,
        toolkits=[toolkit],
        files={
            PACKAGE_CONFIG: ToolkitConfig().text(),
            CONTAINERD_CONFIG: containerd_config(),
            CONTAINERD_DROP_IN: containerd_drop_in(toolkit.folder),
            **(files or {}),
        },
    )


def restore(node: Node) -> None:
    """Put a running node's machine, configuration and spec files back to the incident."""
    plain = description()
    node.set_hardware(MACHINE)
    for toolkit in plain.toolkits:
        node.write(toolkit.config_path, toolkit.config_text())
    for path, content in plain.files.items():
        node.write(path, content)
    for left in node.path("/var/lib/gpucdi").iterdir():
        if left.is_dir():
            shutil.rmtree(left)
        else:
            left.unlink()
    write_specs(node)


def write_specs(node: Node) -> None:
    """Make the three spec files of the incident with the node's own nvidia-ctk, and no other.

    The toolkit container writes every hostPath out, which makes its file version 0.5.0
    (NVIDIA/nvidia-container-toolkit cmd/nvidia-ctk-installer/toolkit/toolkit.go); the command line
    leaves them out where they equal the path, so they are added here.
    """
    for folder in SPEC_DIRS:
        for path in node.path(folder).iterdir():
            path.unlink()
    spec = yaml.safe_load(
        generate(node, "--mode", "management", "--vendor", "management.nvidia.com")
    )
    for device in spec["devices"]:
        for entry in device["containerEdits"]["deviceNodes"]:
            entry["hostPath"] = entry["path"]
    spec["cdiVersion"] = "0.5.0"
    node.write(MANAGEMENT_SPEC, yaml.safe_dump(spec, sort_keys=False))
    node.write(ADMIN_SPEC, generate(node))
    plugin = ("--vendor", "k8s.device-plugin.nvidia.com", "--device-name-strategy", "uuid")
    node.write(PLUGIN_SPEC, generate(node, *plugin, "--format", "json"))


def generate(node: Node, *arguments: str) -> str:
    """Return what the node's own ``nvidia-ctk cdi generate`` prints."""
    command = [f"{OPERATOR_FOLDER}/nvidia-ctk", "cdi", "generate", *arguments]
    # As in the toolkit's own environment: its hook is found through the path.
    return node.run(command, check=True).stdout


def containerd_config() -> str:
    """The main file: what the installation of containerd 2 left, plus what a small machine needs.

    ``restrict_oom_score_adj`` is for machines without CAP_SYS_RESOURCE.
    """
    return """\
imports = ["/etc/containerd/conf.d/*.toml"]
version = 3
disabled_plugins = ["io.containerd.nri.v1.nri"]

[plugins]

  [plugins."io.containerd.cri.v1.images"]
    snapshotter = "overlayfs"

    [plugins."io.containerd.cri.v1.images".pinned_images]
      sandbox = "localhost/pause:lab"

  [plugins."io.containerd.cri.v1.runtime"]
    cdi_spec_dirs = ["/etc/cdi", "/var/run/cdi"]
    restrict_oom_score_adj = true

    [plugins."io.containerd.cri.v1.runtime".cni]
      bin_dirs = ["/usr/lib/cni"]
      conf_dir = "/etc/cni/net.d"

    [plugins."io.containerd.cri.v1.runtime".containerd]
      default_runtime_name = "runc"

      [plugins."io.containerd.cri.v1.runtime".containerd.runtimes]

        [plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc]
          runtime_type = "io.containerd.runc.v2"

          [plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc.options]
            BinaryName = ""
            SystemdCgroup = false
"""


def containerd_drop_in(folder: str = OPERATOR_FOLDER) -> str:
    """The drop-in file of the toolkit container: its three handlers."""

    def lines() -> Iterator[str]:
        runtime = 'plugins."io.containerd.cri.v1.runtime"'
        yield "version = 3\n"
        yield f"[{runtime}.containerd.runtimes]"
        for handler, binary in HANDLERS.items():
            table = f"{runtime}.containerd.runtimes.{handler}"
            yield f'\n[{table}]\n  runtime_type = "io.containerd.runc.v2"\n'
            yield f'[{table}.options]\n  BinaryName = "{folder}/{binary}"'
            yield "  SystemdCgroup = false"

    return "\n".join(lines()) + "\n"
