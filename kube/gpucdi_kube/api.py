"""The Kubernetes API as our programs see it: paths in, JSON objects out.

Owns the Protocol and its values. No typed models: a Node that lacks an optional-in-practice field
makes typed clients raise, and decoding is most of their cost. Must not know: HTTP.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from typing import Protocol, TypeAlias

# One decoded JSON object of the API. Values are `object`: readers narrow with gpucdi.api.fields.
KubeObject: TypeAlias = "dict[str, object]"

MERGE_PATCH = "application/merge-patch+json"
STRATEGIC_PATCH = "application/strategic-merge-patch+json"
JSON_PATCH = "application/json-patch+json"
APPLY_PATCH = "application/apply-patch+yaml"


@dataclass(frozen=True, slots=True)
class WatchEvent:
    """One line of a watch: ``type`` is ADDED, MODIFIED, DELETED or BOOKMARK."""

    type: str
    object: KubeObject


@dataclass(frozen=True, slots=True)
class RequestRecord:
    """One HTTP request as it ended; ``code`` is 0 when there was no answer.

    ``verb`` is the API's word (get, list, watch, apply, create, replace, patch, delete).
    """

    verb: str
    path: str
    code: int
    seconds: float


Observer: TypeAlias = Callable[[RequestRecord], None]
# Called before each attempt with the API's verb, and with HTTP's (not for GET) once there is a
# connection to send it on; what it raises ends the call. A writer that may have lost its right to
# write in the meantime (a paused leader) is stopped here and not earlier.
Guard: TypeAlias = Callable[[str], None]


class KubeApi(Protocol):
    """Everything we ask of an API server.

    ``path`` is absolute, for instance ``/api/v1/nodes/n1/status``; ``gpucdi_kube.paths`` builds
    them. Every method may raise the errors of ``gpucdi_kube.errors``; retries are the adapter's.
    """

    async def get(self, path: str) -> KubeObject | None:
        """Return the object, or ``None`` when there is none (404)."""

    def list(
        self,
        path: str,
        *,
        field_selector: str = "",
        label_selector: str = "",
        limit: int = 500,
        cached: bool = False,
    ) -> AsyncIterator[KubeObject]:
        """Yield the items of a collection, ``limit`` a request.

        An expired continue token starts the list anew, so an item may come twice. ``cached`` takes
        what the API server has in memory: a moment old perhaps, in one answer whatever ``limit``
        says, and without reading every object of the kind from etcd to select a few.
        """

    async def apply(
        self, path: str, body: KubeObject, *, field_manager: str, force: bool = False
    ) -> KubeObject:
        """Server-side apply ``body`` as ``field_manager`` and return the whole object.

        Fields that this manager applied before and that ``body`` lacks are removed. Without
        ``force`` a field of another manager is a ``Conflict``.
        """

    async def create(self, path: str, body: KubeObject) -> KubeObject:
        """Create an object in the collection ``path``; ``AlreadyExists`` if the name is taken."""

    async def replace(self, path: str, body: KubeObject) -> KubeObject:
        """Replace an object; ``Conflict`` if ``metadata.resourceVersion`` is not the current."""

    async def patch(self, path: str, body: object, *, content_type: str) -> KubeObject:
        """Patch an object (``MERGE_PATCH``, ``STRATEGIC_PATCH`` or ``JSON_PATCH``)."""

    async def delete(self, path: str) -> None:
        """Delete an object; one that is already gone is fine."""

    def watch(
        self, path: str, *, field_selector: str = "", resource_version: str = "", timeout_s: int
    ) -> AsyncIterator[WatchEvent]:
        """Yield changes of a collection until the server ends the watch after ``timeout_s``.

        Without ``resource_version`` the present objects come first, as ADDED. Raises ``Gone``
        when the version has expired. Bookmarks are asked for and yielded.
        """

    async def close(self) -> None:
        """Close all connections."""
