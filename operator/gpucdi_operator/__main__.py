"""The command line ``gpucdi-operator``.

Owns: arguments and exit codes. Must not know: kopf; what a command needs is imported when it runs,
so that a missing extra is one sentence and no traceback.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
from collections.abc import Sequence

from gpucdi.api.names import NAMESPACE
from gpucdi_operator import logs
from gpucdi_operator.options import Options

EXIT_FAILED = 1
EXIT_NOT_USABLE = 2
_DESCRIPTION = "Marks Nodes, explains failing Pods and decides what the agents of a fleet may do."


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="gpucdi-operator", description=_DESCRIPTION)
    commands = parser.add_subparsers(dest="command", required=True)
    run = commands.add_parser("run", help="run one replica until it is told to stop")
    run.add_argument(
        "--http",
        default=Options().http,
        help="host:port of /metrics, /healthz, /readyz (default: %(default)s on all addresses)",
    )
    run.add_argument(
        "--identity",
        default=os.environ.get("POD_NAME", ""),
        help="name of the replica in the Lease; two of the same name would both lead",
    )
    clean = commands.add_parser(
        "uninstall",
        help="remove our condition and taint from all Nodes, once no operator leads any more",
    )
    for command in (run, clean):
        command.add_argument(
            "--namespace",
            default=os.environ.get("POD_NAMESPACE", NAMESPACE),
            help="where the Leases are (default: POD_NAMESPACE or %(default)s)",
        )
        command.add_argument(
            "--kubeconfig", help="a kubeconfig (default: the service account, else KUBECONFIG)"
        )
    return parser


async def _uninstall(kubeconfig: str | None, namespace: str) -> None:
    from gpucdi_kube import SystemClock, connect  # noqa: PLC0415 - see the module
    from gpucdi_operator.app import USER_AGENT  # noqa: PLC0415 - see the module
    from gpucdi_operator.uninstall import (  # noqa: PLC0415 - see the module
        uninstall,
        until_nobody_leads,
    )

    api = await connect(kubeconfig, user_agent=USER_AGENT)
    try:
        await until_nobody_leads(api, SystemClock(), namespace)
        logs.log("uninstalled", nodes=await uninstall(api))
    finally:
        await api.close()


def _carry_out(chosen: argparse.Namespace) -> int:
    from gpucdi_kube import CredentialsError, KubeError  # noqa: PLC0415 - see the module
    from gpucdi_operator import app  # noqa: PLC0415 - see the module

    try:
        if chosen.command == "uninstall":
            asyncio.run(_uninstall(chosen.kubeconfig, chosen.namespace))
        else:
            options = Options(
                kubeconfig=chosen.kubeconfig,
                namespace=chosen.namespace,
                http=chosen.http,
                identity=chosen.identity,
            )
            asyncio.run(app.run(options))
    except CredentialsError as error:
        logs.log("no credentials", 40, error=str(error))
        return EXIT_NOT_USABLE
    except (KubeError, RuntimeError, OSError) as error:
        logs.log("ended", 40, error=f"{type(error).__name__}: {error}")
        return EXIT_FAILED
    return 0


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; return the exit code."""
    chosen = _parser().parse_args(arguments)
    logs.configure()
    try:
        return _carry_out(chosen)
    except ModuleNotFoundError as missing:
        message = f"gpucdi-operator needs {missing.name}: in a checkout, pip install '.[operator]'"
        print(message, file=sys.stderr)  # noqa: T201 - a person reads it
        return EXIT_NOT_USABLE


if __name__ == "__main__":
    sys.exit(main())
