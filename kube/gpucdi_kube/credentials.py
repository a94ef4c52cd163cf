"""Who we are to the API server: a Pod's service account, or a kubeconfig.

Owns finding and renewing credentials. The service account is read here, in a few lines, because
importing any part of ``kubernetes`` runs its package initialisers, which load the synchronous
client, requests and pydantic (55 MB resident against 35 MB for aiohttp alone, on Python 3.11);
the agent never pays that. A kubeconfig (exec plugins, OIDC, embedded certificates) is read by
``kubernetes.aio.config``, imported only then.
"""

from __future__ import annotations

import os
import ssl
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

import yaml

SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
TOKEN_READ_AGAIN_S = 60.0

# kubernetes.aio.config expects a well-formed file and stumbles in Python's own words otherwise.
_UNREADABLE = (OSError, ValueError, TypeError, AttributeError, LookupError, yaml.YAMLError)


class CredentialsError(Exception):
    """No usable credentials; the message says what was looked for."""


class Authorization(Protocol):
    """The value of the Authorization header, kept fresh."""

    async def header(self) -> str | None:
        """Return the present value, or ``None`` where certificates or nothing authenticate."""

    async def renew(self) -> None:
        """Forget what was read, because the server refused it; ``CredentialsError`` for no newer."""


@dataclass(frozen=True, slots=True)
class StaticAuthorization:
    """A header that never changes; ``None`` for none."""

    value: str | None = None

    async def header(self) -> str | None:
        """Return the value."""
        return self.value

    async def renew(self) -> None:
        """Do nothing: there is nothing newer."""


@dataclass(slots=True)
class TokenFile:
    """A bearer token that the kubelet rotates in ``path``; read again each minute."""

    path: Path
    monotonic: Callable[[], float] = time.monotonic
    _token: str = ""
    _read_at: float = field(default=float("-inf"))

    async def header(self) -> str | None:
        """Return ``Bearer <token>`` from the file as it was at most a minute ago."""
        if self.monotonic() - self._read_at >= TOKEN_READ_AGAIN_S:
            try:
                # A local file of a kilobyte: a thread would cost more than the read.
                self._token = self.path.read_text(encoding="ascii").strip()
            except (OSError, ValueError) as error:
                raise CredentialsError(f"{self.path}: {error}") from error
            self._read_at = self.monotonic()
        return f"Bearer {self._token}"

    async def renew(self) -> None:
        """Read the file at the next request."""
        self._read_at = float("-inf")


@dataclass(slots=True)
class KubeconfigAuthorization:
    """The user of a kubeconfig; ``load`` reads the file and runs its plugin again."""

    load: Callable[[], Awaitable[str | None]]
    value: str | None

    async def header(self) -> str | None:
        """Return what the kubeconfig gave last."""
        return self.value

    async def renew(self) -> None:
        """Ask the kubeconfig's user entry again."""
        self.value = await self.load()


@dataclass(frozen=True, slots=True)
class Credentials:
    """Where the API server is and how to prove who we are. Files are absolute paths."""

    server: str
    authorization: Authorization = field(default_factory=StaticAuthorization)
    ca_file: str | None = None
    cert_file: str | None = None
    key_file: str | None = None
    verify: bool = True
    tls_server_name: str | None = None
    proxy: str | None = None

    def ssl_context(self) -> ssl.SSLContext | bool:
        """Return the TLS context, or ``False`` for a plain HTTP server."""
        if not self.server.startswith("https"):
            return False
        context = ssl.create_default_context(cafile=self.ca_file)
        # Many clusters' CA certificates predate RFC 5280's key usage demands (Python 3.13).
        context.verify_flags &= ~getattr(ssl, "VERIFY_X509_STRICT", 0)
        if self.cert_file:
            context.load_cert_chain(self.cert_file, self.key_file)
        if not self.verify:
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        return context


def in_cluster(directory: Path = SERVICE_ACCOUNT) -> Credentials | None:
    """Return a Pod's service account, or ``None`` outside of one."""
    host, port = (
        os.environ.get("KUBERNETES_SERVICE_HOST"),
        os.environ.get("KUBERNETES_SERVICE_PORT", "443"),
    )
    token = directory / "token"
    if not host or not token.is_file():
        return None
    address = f"[{host}]" if ":" in host else host
    return Credentials(
        server=f"https://{address}:{port}",
        authorization=TokenFile(token),
        ca_file=str(directory / "ca.crt"),
    )


def _is_there(files: str) -> bool:
    return any(Path(file).expanduser().is_file() for file in files.split(os.pathsep) if file)


async def from_kubeconfig(path: str | None, context: str | None = None) -> Credentials:
    """Return the current (or the named) context of a kubeconfig.

    ``None`` means ``KUBECONFIG`` or ``~/.kube/config``. Raises ``CredentialsError``.
    """
    from kubernetes.aio import config  # noqa: PLC0415  # 20 MB that only this path pays
    from kubernetes.aio.client.configuration import Configuration  # noqa: PLC0415  # as above

    files = path or os.environ.get("KUBECONFIG") or "~/.kube/config"
    if not _is_there(files):
        # The library warns in the log and then blames a key of the file that is not there.
        raise CredentialsError(f"there is no kubeconfig {files}")
    settings = Configuration()
    read: Callable[..., Awaitable[object]] = config.load_kube_config

    async def load() -> str | None:
        try:
            await read(
                config_file=files,
                context=context,
                client_configuration=settings,
                persist_config=False,
            )
            return await settings.get_api_key_with_prefix("BearerToken")
        except (config.ConfigException, *_UNREADABLE) as error:
            raise CredentialsError(f"kubeconfig {path or '(default)'}: {error}") from error

    header = await load()
    return Credentials(
        server=settings.host.rstrip("/"),
        authorization=KubeconfigAuthorization(load, header),
        ca_file=settings.ssl_ca_cert,
        cert_file=settings.cert_file,
        key_file=settings.key_file,
        verify=settings.verify_ssl,
        tls_server_name=settings.tls_server_name,
        proxy=settings.proxy,
    )


async def find(kubeconfig: str | None = None, context: str | None = None) -> Credentials:
    """Return the service account inside a Pod, unless a kubeconfig is named; else a kubeconfig."""
    if kubeconfig is None and context is None and (found := in_cluster()) is not None:
        return found
    return await from_kubeconfig(kubeconfig, context)
