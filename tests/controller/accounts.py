"""Who operator and agent are on a real API server: the tokens of their service accounts.

Owns: credentials with the rights that the manifest ships, and none besides.
"""

from __future__ import annotations

import yaml
from tests.fakeapi.controlplane import ControlPlane

from gpucdi_kube import Credentials
from gpucdi_kube.credentials import StaticAuthorization

NAMESPACE = "gpucdi-system"


def token(plane: ControlPlane, account: str, pod: str = "") -> str:
    """Return a token of the account; ``pod`` binds it to that Pod, as kubelet does."""
    bound = ("--bound-object-kind=Pod", f"--bound-object-name={pod}") if pod else ()
    return plane.kubectl("create", "token", account, "-n", NAMESPACE, *bound).strip()


def credentials(plane: ControlPlane, bearer: str) -> Credentials:
    """Return the credentials of whoever has the token."""
    return Credentials(
        plane.url, StaticAuthorization(f"Bearer {bearer}"), ca_file=str(plane.ca_file)
    )


def operators(plane: ControlPlane) -> Credentials:
    """Return the credentials of the operator's Pod."""
    return credentials(plane, token(plane, "gpucdi-operator"))


def kubeconfig(plane: ControlPlane) -> str:
    """Return what a Pod of the operator would have: its service account and nothing else."""
    cluster = {"server": plane.url, "certificate-authority": str(plane.ca_file)}
    body = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "c",
        "clusters": [{"name": "c", "cluster": cluster}],
        "users": [{"name": "u", "user": {"token": token(plane, "gpucdi-operator")}}],
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
    }
    return yaml.safe_dump(body)
