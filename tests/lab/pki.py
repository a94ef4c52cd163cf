"""Certificates of the lab's cluster: one authority, valid for a day, made anew each run.

Owns: keys, certificates and the kubeconfig files that hold them. Must not know: processes.
"""

from __future__ import annotations

import base64
import datetime as dt
import ipaddress
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

_LIFETIME = dt.timedelta(days=1)


@dataclass(frozen=True, slots=True)
class Pair:
    """A certificate and its private key, each a PEM file."""

    certificate: Path
    key: Path


class Authority:
    """A certificate authority whose files lie in one folder."""

    def __init__(self, folder: Path) -> None:
        """Make the authority; ``folder`` gets ``ca.crt``."""
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = _name("gpucdi-lab", None)
        builder = _builder(self._name, self._name, self._key.public_key())
        certificate = builder.add_extension(
            x509.BasicConstraints(ca=True, path_length=None), critical=True
        ).sign(self._key, hashes.SHA256())
        self.certificate = folder / "ca.crt"
        self.certificate.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))

    def issue(
        self, file_name: str, user: str, group: str | None = None, hosts: Sequence[str] = ()
    ) -> Pair:
        """Issue a certificate for a client and, with ``hosts``, for a server too."""
        key = ec.generate_private_key(ec.SECP256R1())
        usages = [ExtendedKeyUsageOID.CLIENT_AUTH]
        builder = _builder(_name(user, group), self._name, key.public_key())
        if hosts:
            usages.append(ExtendedKeyUsageOID.SERVER_AUTH)
            names = x509.SubjectAlternativeName([_host(host) for host in hosts])
            builder = builder.add_extension(names, critical=False)
        builder = builder.add_extension(x509.ExtendedKeyUsage(usages), critical=False)
        certificate = builder.sign(self._key, hashes.SHA256())
        pair = Pair(self.folder / f"{file_name}.crt", write_key(self.folder / file_name, key))
        pair.certificate.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
        return pair

    def kubeconfig(self, pair: Pair, server: str) -> Path:
        """Write a kubeconfig that needs no other file; return where it lies."""
        config = {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "lab",
            "contexts": [{"name": "lab", "context": {"cluster": "lab", "user": "lab"}}],
            "clusters": [
                {
                    "name": "lab",
                    "cluster": {
                        "server": server,
                        "certificate-authority-data": _base64(self.certificate),
                    },
                }
            ],
            "users": [
                {
                    "name": "lab",
                    "user": {
                        "client-certificate-data": _base64(pair.certificate),
                        "client-key-data": _base64(pair.key),
                    },
                }
            ],
        }
        path = pair.certificate.with_suffix(".kubeconfig")
        # JSON is YAML, and every reader of a kubeconfig reads YAML.
        path.write_text(json.dumps(config))
        path.chmod(0o600)
        return path


def write_key(stem: Path, key: ec.EllipticCurvePrivateKey | None = None) -> Path:
    """Write a private key (a new one by default) as ``<stem>.key``."""
    key = key or ec.generate_private_key(ec.SECP256R1())
    path = stem.with_name(stem.name + ".key")
    path.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            # kube-apiserver takes a service account key in this form alone.
            serialization.PrivateFormat.TraditionalOpenSSL,
            serialization.NoEncryption(),
        )
    )
    path.chmod(0o600)
    return path


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey
) -> x509.CertificateBuilder:
    now = dt.datetime.now(dt.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - dt.timedelta(hours=1))
        .not_valid_after(now + _LIFETIME)
    )


def _name(user: str, group: str | None) -> x509.Name:
    attributes = [x509.NameAttribute(NameOID.COMMON_NAME, user)]
    if group is not None:
        attributes.insert(0, x509.NameAttribute(NameOID.ORGANIZATION_NAME, group))
    return x509.Name(attributes)


def _host(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _base64(path: Path) -> str:
    return base64.b64encode(path.read_bytes()).decode()
