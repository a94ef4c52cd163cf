"""Kubeconfigs as people have them, and the price of importing this package."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from pathlib import Path

import pytest

from gpucdi_kube.credentials import CredentialsError, from_kubeconfig

KUBECONFIG = """
apiVersion: v1
kind: Config
current-context: here
clusters: [{name: c, cluster: {server: "https://127.0.0.1:6443/", insecure-skip-tls-verify: true}}]
contexts: [{name: here, context: {cluster: c, user: u}}]
users: [{name: u, user: {token: secret-of-a-test}}]
"""


async def test_a_kubeconfig_gives_server_token_and_tls(tmp_path: Path) -> None:
    file = tmp_path / "config"
    file.write_text(KUBECONFIG)
    found = await from_kubeconfig(str(file))
    assert found.server == "https://127.0.0.1:6443"
    assert found.verify is False
    assert await found.authorization.header() == "Bearer secret-of-a-test"


async def test_a_renewed_kubeconfig_gives_the_new_token(tmp_path: Path) -> None:
    file = tmp_path / "config"
    file.write_text(KUBECONFIG)
    found = await from_kubeconfig(str(file))
    file.write_text(KUBECONFIG.replace("secret-of-a-test", "newer"))
    await found.authorization.renew()
    assert await found.authorization.header() == "Bearer newer"


@pytest.mark.parametrize("content", [None, "", "clusters: 7", "{", "contexts: []"])
async def test_a_useless_kubeconfig_is_an_error_that_names_it(
    tmp_path: Path, content: str | None
) -> None:
    file = tmp_path / "broken"
    if content is not None:
        await asyncio.to_thread(file.write_text, content)
    with pytest.raises(CredentialsError, match="broken"):
        await from_kubeconfig(str(file))


async def test_a_kubeconfig_that_is_not_there_is_an_error_that_says_so(tmp_path: Path) -> None:
    with pytest.raises(CredentialsError, match=r"there is no kubeconfig .*absent"):
        await from_kubeconfig(str(tmp_path / "absent"))


def test_connecting_from_a_pod_loads_neither_kubernetes_nor_pydantic() -> None:
    program = "import gpucdi_kube, sys; print([m for m in ('kubernetes', 'pydantic', 'requests') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True)
    assert done.stdout.strip() == b"[]"
