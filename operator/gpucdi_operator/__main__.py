"""``gpucdi-operator``: the command line. Owns arguments and exit codes."""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
from collections.abc import Sequence

from gpucdi.api.names import NAMESPACE
from gpucdi_kube import CredentialsError, KubeError, connect
from gpucdi_operator import app, logs
from gpucdi_operator.options import Options
from gpucdi_operator.uninstall import uninstall

EXIT_FAILED = 1
EXIT_NO_CREDENTIALS = 2


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="gpucdi-operator", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    run = commands.add_parser("run", help="run one replica until it is told to stop")
    run.add_argument(
        "--namespace",
        default=os.environ.get("POD_NAMESPACE", NAMESPACE),
        help="where the Leases are (default: POD_NAMESPACE or %(default)s)",
    )
    run.add_argument(
        "--http", default=Options().http, help="host:port of /metrics, /healthz, /readyz"
    )
    run.add_argument(
        "--identity", default=os.environ.get("POD_NAME", ""), help="name of the replica"
    )
    clean = commands.add_parser("uninstall", help="remove our condition from all Nodes")
    for command in (run, clean):
        command.add_argument(
            "--kubeconfig", help="a kubeconfig (default: the service account, else KUBECONFIG)"
        )
    return parser


async def _uninstall(kubeconfig: str | None) -> None:
    api = await connect(kubeconfig, user_agent=app.USER_AGENT)
    try:
        logs.log("uninstalled", nodes=await uninstall(api))
    finally:
        await api.close()


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; return the exit code."""
    chosen = _parser().parse_args(arguments)
    logs.configure()
    try:
        if chosen.command == "uninstall":
            asyncio.run(_uninstall(chosen.kubeconfig))
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
        return EXIT_NO_CREDENTIALS
    except (KubeError, RuntimeError, OSError) as error:
        logs.log("ended", 40, error=f"{type(error).__name__}: {error}")
        return EXIT_FAILED
    return 0


if __name__ == "__main__":
    sys.exit(main())
