"""What can go wrong between us and the API server, and what the caller should do about it.

Owns the error tree and the reading of ``metav1.Status``. Must not know: HTTP libraries.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from typing import ClassVar

from gpucdi.api import fields


class Remedy(enum.StrEnum):
    """What a caller does next."""

    RETRY = "retry"  # later, unchanged; the adapter has already retried for a while
    REREAD = "reread"  # read the object again, decide again, then write
    GIVE_UP = "give up"  # the request itself is wrong or its object is gone; the same fails again
    ADMIN = "admin"  # rights, credentials or the API server's set-up must be mended by a person


class KubeError(Exception):
    """Any failed request: ``code`` is the HTTP status, 0 where there was no answer."""

    remedy: ClassVar[Remedy] = Remedy.RETRY

    def __init__(self, message: str, *, code: int = 0, reason: str = "") -> None:
        super().__init__(message)
        self.code = code
        self.reason = reason


class NotFound(KubeError):  # noqa: N818  # the API's own word; the tree says that it is an error
    """404: the object or the whole resource does not exist (a missing CRD looks the same)."""

    remedy = Remedy.GIVE_UP


class Conflict(KubeError):  # noqa: N818  # as above
    """409: the object changed since it was read, or another manager owns an applied field."""

    remedy = Remedy.REREAD


class AlreadyExists(Conflict):
    """409 on create: an object of that name is there."""


class Forbidden(KubeError):  # noqa: N818  # as above
    """403: RBAC or an admission policy refuses; only a person can change that."""

    remedy = Remedy.ADMIN


class Unauthorized(KubeError):  # noqa: N818  # as above
    """401 even with freshly read credentials."""

    remedy = Remedy.ADMIN


class Gone(KubeError):  # noqa: N818  # as above
    """410: the resource version or continue token has expired; list again."""

    remedy = Remedy.REREAD


class TooManyRequests(KubeError):  # noqa: N818  # as above
    """429 for longer than our deadline; wait ``retry_after_s`` first."""

    def __init__(self, message: str, *, retry_after_s: float, reason: str = "") -> None:
        super().__init__(message, code=429, reason=reason)
        self.retry_after_s = retry_after_s


class Invalid(KubeError):  # noqa: N818  # as above
    """400, 413, 415 or 422: the object breaks the schema or a rule; the message says which."""

    remedy = Remedy.GIVE_UP


class ServerError(KubeError):
    """5xx, or an answer that is not what the API promises."""


class Unreachable(KubeError):  # noqa: N818  # as above
    """No answer: refused, reset, timed out, or TLS failed. A write may have happened."""


_BY_CODE: Mapping[int, type[KubeError]] = {
    400: Invalid,
    401: Unauthorized,
    403: Forbidden,
    404: NotFound,
    409: Conflict,
    410: Gone,
    413: Invalid,
    415: Invalid,
    422: Invalid,
}


def error_of(code: int, status: object, *, request: str, retry_after_s: float = 1.0) -> KubeError:
    """Return the error for an HTTP ``code`` and the decoded ``metav1.Status``, if there was one.

    ``request`` (verb and path) opens the message, so that a log line explains itself.
    """
    reason = fields.text(status, "reason")
    told = fields.text(status, "message") or reason or "no message"
    message = f"{request}: HTTP {code}: {told}"
    if code == 429:  # noqa: PLR2004  # the HTTP status is its own name
        return TooManyRequests(message, retry_after_s=retry_after_s, reason=reason)
    if reason == "AlreadyExists":
        return AlreadyExists(message, code=code, reason=reason)
    return _BY_CODE.get(code, ServerError)(message, code=code, reason=reason)
