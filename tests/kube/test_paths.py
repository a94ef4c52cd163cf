"""Names that anybody may write never lead to another object."""

from __future__ import annotations

import pytest

from gpucdi_kube import paths
from gpucdi_kube.errors import NotFound


@pytest.mark.parametrize("name", ["", ".", "..", "../../default/pods/victim", "a/b", "a%2Fb"])
def test_what_cannot_be_a_name_is_not_found(name: str) -> None:
    with pytest.raises(NotFound, match="cannot be the name of an object"):
        paths.pod("tenant", name)


def test_a_name_cannot_add_a_query() -> None:
    assert paths.pod("tenant", "a?limit=1#b") == "/api/v1/namespaces/tenant/pods/a%3Flimit%3D1%23b"


def test_names_as_they_are_stay_as_they_are() -> None:
    assert paths.event("default", "gpu-1.17a_b~c") == (
        "/apis/events.k8s.io/v1/namespaces/default/events/gpu-1.17a_b~c"
    )
