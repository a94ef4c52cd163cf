"""A real API server and nothing else: etcd and kube-apiserver on loopback.

Owns: starting and ending the two. There is no controller, no scheduler and no kubelet, so objects
stay as they are put: what the fake API server is compared with, and a real server for load.
"""

from __future__ import annotations

import base64
import json
import socket
import ssl
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.lab import pki, programs

ROOT = Path(__file__).parents[2]
START_S = 60.0
STOP_S = 20.0


@dataclass(frozen=True, slots=True)
class ControlPlane:
    """A running API server. ``kubeconfig`` is an administrator's."""

    url: str
    kubeconfig: Path
    ca_file: Path
    kubectl_path: Path
    etcd_url: str
    # Ends the API server and starts it anew on the same store: its caches begin with what is there.
    restart: Callable[[], None]

    def compact(self) -> None:
        """Let the store forget every version but the last.

        As kube-apiserver itself does every five minutes, the note by which its caches hear of it
        included (``staging/src/k8s.io/apiserver/pkg/storage/etcd3/compact.go``).
        """
        revision = self._etcd("range", key="AA==", limit="1")["header"]["revision"]
        note = base64.b64encode(revision.encode()).decode()
        self._etcd("put", key=base64.b64encode(b"compact_rev_key").decode(), value=note)
        self._etcd("compaction", revision=revision, physical=True)

    def _etcd(self, call: str, **body: object) -> Any:
        sent = json.dumps(body).encode()
        with urllib.request.urlopen(f"{self.etcd_url}/v3/kv/{call}", sent, timeout=30) as answer:
            return json.load(answer)

    def kubectl(self, *arguments: str, stdin: str | None = None) -> str:
        """Run kubectl as administrator and return what it prints."""
        done = subprocess.run(
            [self.kubectl_path, f"--kubeconfig={self.kubeconfig}", *arguments],
            input=stdin,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    def install(self) -> None:
        """Apply the shipped CRDs and the install manifest."""
        self.kubectl("apply", "--server-side", "-f", str(ROOT / "crds"))
        self.kubectl("wait", "--for=condition=Established", "crd", "--all", "--timeout=30s")
        self.kubectl("apply", "--server-side", "-f", str(ROOT / "manifests" / "install.yaml"))
        self._wait_until_guarded()

    def _wait_until_guarded(self) -> None:
        """Wait for the admission policy: a server obeys a new one a moment after it was made."""
        agent = "system:serviceaccount:gpucdi-system:gpucdi-agent"
        body = {
            "apiVersion": "gpucdi.io/v1alpha1",
            "kind": "GpuCdiStatus",
            "metadata": {"name": "n"},
            "spec": {"nodeName": "n"},
        }
        command = (self.kubectl_path, f"--kubeconfig={self.kubeconfig}", f"--as={agent}", "create")
        deadline = time.monotonic() + START_S
        while time.monotonic() < deadline:
            done = subprocess.run(
                [*command, "--dry-run=server", "-f", "-"],
                input=json.dumps(body),
                capture_output=True,
                text=True,
                check=False,
            )
            if "names no node" in done.stderr:
                return
            time.sleep(0.1)
        raise TimeoutError(f"the admission policy lets through: {done.stdout}{done.stderr}")


@contextmanager
def control_plane(base: Path) -> Iterator[ControlPlane]:
    """Start the two programs in ``base``; raises ProgramMissingError where they are absent."""
    binaries = programs.kubernetes()
    etcd_port, peer_port, api_port = _free_ports(3)
    authority = pki.Authority(base / "pki")
    serving = authority.issue("apiserver", "kube-apiserver", hosts=["127.0.0.1", "localhost"])
    admin = authority.issue("admin", "test-admin", "system:masters")
    url = f"https://127.0.0.1:{api_port}"
    accounts_key = pki.write_key(base / "accounts")
    etcd = _etcd(base / "etcd", etcd_port, peer_port)
    apiserver = [
        str(binaries / "kube-apiserver"),
        f"--etcd-servers=http://127.0.0.1:{etcd_port}",
        "--bind-address=127.0.0.1",
        "--advertise-address=127.0.0.1",
        f"--secure-port={api_port}",
        f"--cert-dir={base}",
        f"--tls-cert-file={serving.certificate}",
        f"--tls-private-key-file={serving.key}",
        f"--client-ca-file={authority.certificate}",
        f"--service-account-key-file={accounts_key}",
        f"--service-account-signing-key-file={accounts_key}",
        "--service-account-issuer=https://kubernetes.default.svc",
        "--service-cluster-ip-range=10.96.0.0/16",
        "--authorization-mode=RBAC",
        "--disable-admission-plugins=ServiceAccount",
        "--allow-privileged=true",
        "--endpoint-reconciler-type=none",
        # A load test is one client; the lab is no place to be fair.
        "--max-requests-inflight=2000",
        "--max-mutating-requests-inflight=2000",
    ]
    tls = ssl.create_default_context(cafile=str(authority.certificate))
    log = base / "apiserver.log"
    with _running(etcd, base / "etcd.log"), ExitStack() as served:

        def restart() -> None:
            served.close()
            process = served.enter_context(_running(apiserver, log))
            _wait_until_ready(url, tls, process, log)

        restart()
        yield ControlPlane(
            url,
            authority.kubeconfig(admin, url),
            authority.certificate,
            binaries / "kubectl",
            f"http://127.0.0.1:{etcd_port}",
            restart,
        )


def _etcd(folder: Path, port: int, peer_port: int) -> list[str]:
    client, peer = f"http://127.0.0.1:{port}", f"http://127.0.0.1:{peer_port}"
    return [
        str(programs.system_program("etcd")),
        *("--data-dir", str(folder), "--listen-client-urls", client),
        *("--advertise-client-urls", client, "--listen-peer-urls", peer),
        *("--initial-advertise-peer-urls", peer, "--initial-cluster", f"default={peer}"),
    ]


@contextmanager
def _running(command: Sequence[str], log: Path) -> Iterator[subprocess.Popen[bytes]]:
    with log.open("wb") as out:
        process = subprocess.Popen(command, stdout=out, stderr=out)
        try:
            yield process
        finally:
            process.terminate()
            try:
                process.wait(STOP_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait(STOP_S)


def _wait_until_ready(
    url: str, tls: ssl.SSLContext, process: subprocess.Popen[bytes], log: Path
) -> None:
    deadline = time.monotonic() + START_S
    while time.monotonic() < deadline:
        assert process.poll() is None, log.read_text(errors="replace")[-3000:]
        try:
            with urllib.request.urlopen(f"{url}/readyz", context=tls, timeout=5):
                return
        except urllib.error.HTTPError as error:
            error.close()
        except OSError:
            pass
        time.sleep(0.1)
    raise TimeoutError(log.read_text(errors="replace")[-3000:])


def _free_ports(count: int) -> list[int]:
    sockets = [socket.socket() for _ in range(count)]
    for item in sockets:
        item.bind(("127.0.0.1", 0))
    ports = [int(item.getsockname()[1]) for item in sockets]
    for item in sockets:
        item.close()
    return ports
