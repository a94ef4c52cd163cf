"""The agent's own run loop over a copy of a captured node, as a process: what `make demo` starts.

Owns: what stands behind the seams where there is no driver and no root. The GPUs are those that the
copy's ``/proc`` lists, programs answer as captured, and the generator is the one given; everything
else, from the inotify watch to the journal, the Lease and ``/metrics``, is ``gpucdi-agent run``.
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import replace
from pathlib import Path

from gpucdi.host import HostTree
from gpucdi.programs import CapturedPrograms
from gpucdi_agent.commands import HostRunner
from gpucdi_agent.generator import CtkGenerator
from gpucdi_agent.passes import Surroundings
from gpucdi_agent.run import RunOptions, live_surroundings, run
from gpucdi_agent.state import StateStore


def main() -> int:
    """Run until told to end; the exit code is the agent's."""
    parser = argparse.ArgumentParser(prog="tests.demo.captured_agent")
    for flag in ("--node-name", "--host-root", "--generator", "--kubeconfig", "--port"):
        parser.add_argument(flag, required=True)
    given = parser.parse_args()

    def stand(options: RunOptions) -> tuple[Surroundings, StateStore]:
        live, state = live_surroundings(options)
        host = HostTree(options.host_root)
        captured = replace(
            live,
            programs=CapturedPrograms.of(host),
            nvml=None,
            generator=CtkGenerator(HostRunner(), program=given.generator),
            # On a live node writing waits for NVML. Here there is none to wait for.
            holds=None,
        )
        return captured, state

    options = RunOptions(
        node_name=given.node_name,
        host_root=Path(given.host_root),
        kubeconfig=given.kubeconfig,
        http=("127.0.0.1", int(given.port)),
    )
    return run(options, stand)


if __name__ == "__main__":
    sys.exit(main())
