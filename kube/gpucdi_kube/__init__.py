"""The Kubernetes API as the programs see it: a Protocol, its errors and its one adapter.

Owns requests, retries, credentials and time. Must not know: what any object means.
"""

from gpucdi_kube.api import KubeApi, KubeObject, Observer, RequestRecord, WatchEvent
from gpucdi_kube.client import HttpKubeApi, connect
from gpucdi_kube.clock import Clock, SystemClock
from gpucdi_kube.credentials import Credentials, CredentialsError
from gpucdi_kube.errors import KubeError, Remedy
from gpucdi_kube.retry import RetryPolicy, TokenBucket

__all__ = [
    "Clock",
    "Credentials",
    "CredentialsError",
    "HttpKubeApi",
    "KubeApi",
    "KubeError",
    "KubeObject",
    "Observer",
    "Remedy",
    "RequestRecord",
    "RetryPolicy",
    "SystemClock",
    "TokenBucket",
    "WatchEvent",
    "connect",
]
