"""What the resident agent costs and how fast it is, measured on the real process.

    python -m tests.bench.agent_cycle [CHANGES]

In a node of the lab (real nvidia-ctk, stub NVML) the agent runs as in a Pod: service account, TLS, the
API server being the fake one of the tests. Prints one Markdown table. Needs root and `make lab`.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import ssl
import statistics
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import yaml
from tests.fakeapi.server import FakeApi, serving
from tests.lab import incident
from tests.lab.node import Node
from tests.lab.pki import Authority
from tests.nodeagent import resident

from gpucdi.api.names import own_file_name

NODE = "bench-node"
ACCOUNT = "/run/secrets/kubernetes.io/serviceaccount"
IDLE_SECONDS = 20.0
PAUSE_SECONDS = 0.7


@asynccontextmanager
async def tls_in_front(url: str, folder: Path) -> AsyncIterator[tuple[int, Path]]:
    """Accept TLS on a free port and pass the bytes on to the plain server at ``url``."""
    authority = Authority(folder)
    pair = authority.issue("apiserver", "apiserver", hosts=["127.0.0.1"])
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(pair.certificate, pair.key)
    port = int(url.rpartition(":")[2])

    async def pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while chunk := await reader.read(65536):
                writer.write(chunk)
                await writer.drain()
        except OSError:
            pass
        finally:
            writer.close()

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        inner_reader, inner_writer = await asyncio.open_connection("127.0.0.1", port)
        await asyncio.gather(pump(reader, inner_writer), pump(inner_reader, writer))

    server = await asyncio.start_server(connected, "127.0.0.1", 0, ssl=context)
    try:
        yield server.sockets[0].getsockname()[1], authority.certificate
    finally:
        server.close()


@dataclass(frozen=True, slots=True)
class Bench:
    """A node with an agent, and the API server that it writes to."""

    node: Node
    api: FakeApi
    pid: int

    def status(self) -> dict[str, object]:
        found = self.api.find("gpucdistatuses", NODE) or {}
        status = found.get("status")
        return status if isinstance(status, dict) else {}

    def memory_mib(self) -> float:
        text = Path(f"/proc/{self.pid}/status").read_text()
        line = next(line for line in text.splitlines() if line.startswith("VmRSS"))
        return int(line.split()[1]) / 1024

    def cpu_seconds(self) -> float:
        """Return the CPU time of the agent and of the children it has waited for."""
        fields = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        return sum(int(value) for value in fields[11:15]) / os.sysconf("SC_CLK_TCK")

    def set_mode(self, mode: str) -> None:
        body = self.api.find("gpucdistatuses", NODE)
        assert body is not None
        metadata = {"name": NODE, "generation": body["metadata"].get("generation", 1) + 1}
        spec = {"nodeName": NODE, "repair": {"mode": mode}}
        self.api.put("gpucdistatuses", {"metadata": metadata, "spec": spec})

    def requests(self) -> int:
        return len(self.api.log)


async def until(condition: object, seconds: float = 30.0) -> float:
    """Wait for ``condition()`` and return how long it took."""
    assert callable(condition)
    started = time.monotonic()
    while not condition():
        if time.monotonic() - started > seconds:
            raise TimeoutError(f"not within {seconds:g} s")
        await asyncio.sleep(0.002)
    return time.monotonic() - started


@asynccontextmanager
async def running(folder: Path) -> AsyncIterator[Bench]:
    """Start node, API server and agent."""
    (folder / "node").mkdir()
    (folder / "pki").mkdir()
    with Node(resident.incident_node(), folder / "node") as node:
        incident.write_specs(node)
        async with serving() as api, tls_in_front(api.url, folder / "pki") as (port, ca):
            node.write(f"{ACCOUNT}/ca.crt", ca.read_text())
            node.write(f"{ACCOUNT}/token", "a.b.c")
            environment = {
                "KUBERNETES_SERVICE_HOST": "127.0.0.1",
                "KUBERNETES_SERVICE_PORT": str(port),
            }
            arguments = [*resident.AGENT, "run", "--node-name", NODE]
            process = node.popen(arguments, env=environment)
            try:
                pid = process.program_pid()
                assert pid is not None
                bench = Bench(node, api, pid)
                await until(lambda: bench.status().get("state") == "Drifted")
                yield bench
            finally:
                process.terminate()
                await asyncio.to_thread(process.wait, 10)


async def change_to_status(bench: Bench, changes: int) -> list[float]:
    """Change a foreign spec again and again; time until the status on the server says so."""
    path = bench.node.path("/etc/cdi/nvidia.yaml")
    spec = yaml.safe_load(path.read_text())
    took = []
    for number in range(changes):
        device = {**spec["devices"][0], "name": f"extra{number}"}
        content = {
            **spec,
            "devices": [*spec["devices"], device][: len(spec["devices"]) + number % 2],
        }
        temporary = path.with_name("spec.tmp")
        temporary.write_text(json.dumps(content))
        wanted = len(content["devices"])

        def shown(wanted: int = wanted) -> bool:
            kinds = bench.status().get("kinds")
            files = [
                file["devices"]
                for kind in (kinds if isinstance(kinds, list) else [])
                for file in kind.get("files", [])
                if file["path"] == "/etc/cdi/nvidia.yaml"
            ]
            return files == [wanted]

        temporary.rename(path)
        took.append(await until(shown))
        await asyncio.sleep(random.uniform(0.1, 0.3))  # noqa: S311 - not in step with its timers
    return took[1:]


async def drift_to_resolvable(bench: Bench, rounds: int) -> list[float]:
    """Delete our file; time until it is back. Our own generator run is included."""
    own = bench.node.path(f"/etc/cdi/{own_file_name('management.nvidia.com/gpu')}")
    took = []
    for _ in range(rounds):
        own.unlink()
        took.append(await until(own.exists))
        await asyncio.sleep(PAUSE_SECONDS)
    return took


def generator_seconds(bench: Bench) -> float:
    """Return the median time of the node's own nvidia-ctk."""
    took = []
    for _ in range(5):
        started = time.monotonic()
        incident.generate(bench.node, "--vendor", "management.nvidia.com")
        took.append(time.monotonic() - started)
    return statistics.median(took)


def percentile(values: list[float], share: float) -> float:
    return sorted(values)[min(len(values) - 1, int(len(values) * share))]


async def measure(changes: int) -> Iterator[tuple[str, str]]:
    rows: list[tuple[str, str]] = []
    with tempfile.TemporaryDirectory(prefix="gpucdi-bench-") as name:
        async with running(Path(name)) as bench:
            await asyncio.sleep(2)
            requests = bench.requests()
            bench.set_mode("Auto")
            await until(lambda: bench.status().get("state") == "Resolved")
            await asyncio.sleep(1)
            rows.append(("API requests for one drift and repair", str(bench.requests() - requests)))
            took = await change_to_status(bench, changes)
            rows.append(
                (f"change on disk → status, P50 of {len(took)}", f"{percentile(took, 0.5):.2f} s")
            )
            rows.append(("change on disk → status, P99", f"{percentile(took, 0.99):.2f} s"))
            await asyncio.sleep(3)
            generator = await asyncio.to_thread(generator_seconds, bench)
            drift = await drift_to_resolvable(bench, 3)
            rows.append(
                ("our file deleted → back, median of 3", f"{statistics.median(drift):.2f} s")
            )
            rows.append(("of that, nvidia-ctk alone", f"{generator:.2f} s"))
            await asyncio.sleep(3)
            cpu, requests = bench.cpu_seconds(), bench.requests()
            await asyncio.sleep(IDLE_SECONDS)
            spent = bench.cpu_seconds() - cpu
            rows.append(
                (f"CPU while idle for {IDLE_SECONDS:.0f} s", f"{spent / IDLE_SECONDS * 1000:.1f} m")
            )
            rows.append(
                (
                    f"API requests while idle for {IDLE_SECONDS:.0f} s",
                    str(bench.requests() - requests),
                )
            )
            rows.append(("resident memory", f"{bench.memory_mib():.0f} MiB"))
    return iter(rows)


def main() -> int:
    changes = int(sys.argv[1]) if len(sys.argv) > 1 else 40
    print("| measured | value |\n|---|---|")
    for name, value in asyncio.run(measure(changes)):
        print(f"| {name} | {value} |")
    return 0


if __name__ == "__main__":
    sys.exit(main())
