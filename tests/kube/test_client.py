"""The adapter against a server of a few lines, so that every byte of the exchange is in sight."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest
from aiohttp import web

from gpucdi_kube import (
    Credentials,
    HttpKubeApi,
    KubeError,
    RequestRecord,
    RetryPolicy,
    TokenBucket,
)
from gpucdi_kube.credentials import StaticAuthorization, TokenFile, from_kubeconfig, in_cluster
from gpucdi_kube.errors import (
    AlreadyExists,
    Conflict,
    Forbidden,
    Gone,
    Invalid,
    Remedy,
    ServerError,
    TooManyRequests,
    Unauthorized,
    Unreachable,
)

Answer = Callable[[web.Request], Awaitable[web.StreamResponse]]
QUICK = RetryPolicy(deadline_s=2.0, first_delay_s=0.001, max_delay_s=0.01)


class Server:
    """Answers each request with the next of a script; the last one repeats."""

    def __init__(self) -> None:
        self.script: list[Answer] = []
        self.requests: list[tuple[str, str, str, bytes]] = []
        self.records: list[RequestRecord] = []
        self.url = ""

    async def handle(self, request: web.Request) -> web.StreamResponse:
        body = await request.read()
        authorization = request.headers.get("Authorization", "")
        self.requests.append((request.method, request.path_qs, authorization, body))
        answer = self.script[0] if len(self.script) == 1 else self.script.pop(0)
        return await answer(request)

    def says(self, code: int, body: object, **headers: str) -> None:
        async def answer(_: web.Request) -> web.StreamResponse:
            return web.json_response(body, status=code, headers=headers)

        self.script.append(answer)

    def cuts(self) -> None:
        async def answer(request: web.Request) -> web.StreamResponse:
            assert request.transport is not None
            request.transport.close()
            return web.Response()

        self.script.append(answer)

    def api(self, policy: RetryPolicy = QUICK, header: str | None = None) -> HttpKubeApi:
        return HttpKubeApi(
            Credentials(self.url, StaticAuthorization(header)),
            policy=policy,
            observe=self.records.append,
        )


@pytest.fixture
async def server() -> AsyncIterator[Server]:
    served = Server()
    app = web.Application()
    app.router.add_route("*", "/{rest:.*}", served.handle)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    host, port = runner.addresses[0][:2]
    served.url = f"http://{host}:{port}"
    yield served
    await runner.cleanup()


@pytest.fixture
async def api(server: Server) -> AsyncIterator[HttpKubeApi]:
    made = server.api()
    yield made
    await made.close()


def status(code: int, reason: str, message: str = "told") -> dict[str, object]:
    return {"kind": "Status", "code": code, "reason": reason, "message": message}


async def test_an_absent_object_is_none(server: Server, api: HttpKubeApi) -> None:
    server.says(404, status(404, "NotFound"))
    assert await api.get("/api/v1/nodes/n1") is None


async def test_apply_sends_json_as_apply_patch_with_manager_and_force(
    server: Server, api: HttpKubeApi
) -> None:
    server.says(200, {"kind": "Node"})
    await api.apply("/api/v1/nodes/n1/status", {"a": 1}, field_manager="m", force=True)
    method, path, _, body = server.requests[0]
    assert (method, path) == ("PATCH", "/api/v1/nodes/n1/status?fieldManager=m&force=true")
    assert json.loads(body) == {"a": 1}


async def test_a_list_follows_its_pages_with_the_same_selectors(
    server: Server, api: HttpKubeApi
) -> None:
    server.says(200, {"items": [{"n": 1}], "metadata": {"continue": "t"}})
    server.says(200, {"items": [{"n": 2}], "metadata": {}})
    pods = api.list("/api/v1/pods", field_selector="spec.nodeName=n1", limit=1)
    assert [item["n"] async for item in pods] == [1, 2]
    assert [path for _, path, _, _ in server.requests] == [
        "/api/v1/pods?fieldSelector=spec.nodeName%3Dn1&limit=1",
        "/api/v1/pods?fieldSelector=spec.nodeName%3Dn1&limit=1&continue=t",
    ]


async def test_a_cached_list_asks_for_any_version(server: Server, api: HttpKubeApi) -> None:
    server.says(200, {"items": []})
    assert [item async for item in api.list("/api/v1/pods", cached=True)] == []
    assert server.requests[0][1] == "/api/v1/pods?limit=500&resourceVersion=0"


async def test_an_expired_continue_token_starts_the_list_anew(
    server: Server, api: HttpKubeApi
) -> None:
    server.says(200, {"items": [{"n": 1}], "metadata": {"continue": "t"}})
    server.says(410, status(410, "Expired"))
    server.says(200, {"items": [{"n": 1}, {"n": 2}], "metadata": {}})
    assert [item["n"] async for item in api.list("/api/v1/pods")] == [1, 1, 2]


async def test_a_busy_server_is_asked_again_after_the_time_it_named(server: Server) -> None:
    server.says(429, status(429, "TooManyRequests"), **{"Retry-After": "1"})
    server.says(200, {"kind": "Node"})
    api = server.api(RetryPolicy(deadline_s=5.0, first_delay_s=0.0))
    await api.get("/api/v1/nodes/n1")
    await api.close()
    assert [record.code for record in server.records] == [429, 200]


async def test_a_server_that_stays_busy_is_an_error_that_says_how_long_to_wait(
    server: Server, api: HttpKubeApi
) -> None:
    server.says(429, status(429, "TooManyRequests"), **{"Retry-After": "7"})
    with pytest.raises(TooManyRequests) as caught:
        await api.get("/api/v1/nodes/n1")
    assert caught.value.retry_after_s == 7
    assert caught.value.remedy is Remedy.RETRY


async def test_a_failing_server_is_asked_again_until_the_deadline(server: Server) -> None:
    server.says(503, status(503, "ServiceUnavailable"))
    api = server.api(RetryPolicy(deadline_s=0.2, first_delay_s=0.01, max_delay_s=0.01))
    with pytest.raises(ServerError):
        await api.apply("/x", {}, field_manager="m")
    await api.close()
    assert len(server.requests) > 3


async def test_a_create_that_may_have_happened_is_not_repeated(
    server: Server, api: HttpKubeApi
) -> None:
    server.says(500, status(500, "InternalError"))
    with pytest.raises(ServerError):
        await api.create("/x", {})
    server.script.clear()
    server.cuts()
    with pytest.raises(Unreachable):
        await api.create("/x", {})
    assert len(server.requests) == 2


async def test_a_cut_answer_is_asked_for_again_where_that_is_harmless(
    server: Server, api: HttpKubeApi
) -> None:
    server.cuts()
    server.says(200, {"kind": "Node"})
    assert await api.get("/api/v1/nodes/n1") == {"kind": "Node"}


async def test_nobody_listening_is_unreachable() -> None:
    api = HttpKubeApi(Credentials("http://127.0.0.1:9"), policy=RetryPolicy(deadline_s=0.0))
    with pytest.raises(Unreachable, match="get /api"):
        await api.get("/api")
    await api.close()


@pytest.mark.parametrize(
    ("code", "reason", "error"),
    [
        (403, "Forbidden", Forbidden),
        (409, "Conflict", Conflict),
        (409, "AlreadyExists", AlreadyExists),
        (410, "Expired", Gone),
        (422, "Invalid", Invalid),
    ],
)
async def test_each_answer_has_its_error_and_is_not_repeated(
    server: Server, api: HttpKubeApi, code: int, reason: str, error: type[KubeError]
) -> None:
    server.says(code, status(code, reason, "the server's own words"))
    with pytest.raises(error, match="the server's own words"):
        await api.replace("/x", {})
    assert len(server.requests) == 1


def test_each_error_says_what_to_do_next() -> None:
    assert Forbidden.remedy is Unauthorized.remedy is Remedy.ADMIN
    assert Conflict.remedy is AlreadyExists.remedy is Gone.remedy is Remedy.REREAD
    assert Invalid.remedy is Remedy.GIVE_UP
    assert ServerError.remedy is Unreachable.remedy is TooManyRequests.remedy is Remedy.RETRY


async def test_a_proxy_page_instead_of_json_is_a_server_error(
    server: Server, api: HttpKubeApi
) -> None:
    async def page(_: web.Request) -> web.StreamResponse:
        return web.Response(text="<html>it works</html>")

    server.script.append(page)
    with pytest.raises(ServerError, match="without JSON"):
        await api.create("/x", {})


async def test_deleting_what_is_gone_is_fine(server: Server, api: HttpKubeApi) -> None:
    server.says(404, status(404, "NotFound"))
    await api.delete("/x")
    assert [record.verb for record in server.records] == ["delete"]


async def test_a_rotated_token_is_read_again_when_the_server_refuses_the_old(
    server: Server, tmp_path: Path
) -> None:
    token = tmp_path / "token"
    token.write_text("old\n")
    server.says(200, {})
    server.says(401, status(401, "Unauthorized"))
    server.says(200, {})
    api = HttpKubeApi(Credentials(server.url, TokenFile(token)), policy=QUICK)
    await api.get("/x")
    token.write_text("new\n")
    await api.get("/x")
    await api.close()
    assert [header for _, _, header, _ in server.requests] == [
        "Bearer old",
        "Bearer old",
        "Bearer new",
    ]


async def test_a_token_that_stays_refused_is_unauthorized_after_one_fresh_read(
    server: Server, api: HttpKubeApi
) -> None:
    server.says(401, status(401, "Unauthorized"))
    with pytest.raises(Unauthorized):
        await api.get("/x")
    assert len(server.requests) == 2


async def test_an_unreadable_token_is_unauthorized_and_names_the_file(
    server: Server, tmp_path: Path
) -> None:
    api = HttpKubeApi(Credentials(server.url, TokenFile(tmp_path / "absent")), policy=QUICK)
    with pytest.raises(Unauthorized, match="absent"):
        await api.get("/x")
    await api.close()
    assert server.requests == []


async def test_a_refused_token_that_cannot_be_renewed_is_unauthorized_and_names_the_file(
    server: Server, tmp_path: Path
) -> None:
    file = tmp_path / "kubeconfig"
    user = {"name": "u", "user": {"token": "old"}}
    cluster = {"name": "c", "cluster": {"server": server.url}}
    context = {"name": "x", "context": {"cluster": "c", "user": "u"}}
    config = {"clusters": [cluster], "users": [user], "contexts": [context]}
    file.write_text(json.dumps({**config, "current-context": "x"}))
    api = HttpKubeApi(await from_kubeconfig(str(file)), policy=QUICK)
    file.unlink()
    server.says(401, status(401, "Unauthorized"))
    with pytest.raises(Unauthorized, match="kubeconfig"):
        await api.get("/x")
    await api.close()


async def test_a_watch_yields_lines_longer_than_a_chunk(server: Server, api: HttpKubeApi) -> None:
    long = "x" * 300_000

    async def answer(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        for event in ({"type": "ADDED", "object": {"long": long}}, {"type": "BOOKMARK"}):
            await response.write(json.dumps(event).encode() + b"\n")
        return response

    server.script.append(answer)
    events = [event async for event in api.watch("/x", resource_version="7", timeout_s=5)]
    assert [event.type for event in events] == ["ADDED", "BOOKMARK"]
    assert events[0].object == {"long": long}
    assert "resourceVersion=7" in server.requests[0][1]


async def test_an_error_line_of_a_watch_is_raised(server: Server, api: HttpKubeApi) -> None:
    async def answer(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        line = {"type": "ERROR", "object": status(410, "Expired")}
        await response.write(json.dumps(line).encode() + b"\n")
        return response

    server.script.append(answer)
    with pytest.raises(Gone):
        await anext(api.watch("/x", resource_version="7", timeout_s=5))


async def test_a_watch_that_is_cut_in_the_middle_says_so(server: Server, api: HttpKubeApi) -> None:
    async def answer(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        await response.write(b'{"type": "ADDED", "object": {}}\n{"type"')
        assert request.transport is not None
        request.transport.close()
        return response

    server.script.append(answer)
    events = api.watch("/x", resource_version="7", timeout_s=5)
    assert (await anext(events)).type == "ADDED"
    with pytest.raises(Unreachable):
        await anext(events)


async def test_a_watch_without_a_version_lists_first_and_starts_there(
    server: Server, api: HttpKubeApi
) -> None:
    asked: list[str] = []

    async def listed(_: web.Request) -> web.StreamResponse:
        return web.json_response({"metadata": {"resourceVersion": "42"}, "items": [{"a": 1}]})

    async def watched(request: web.Request) -> web.StreamResponse:
        asked.append(request.query["resourceVersion"])
        return web.Response()

    server.script.extend([listed, watched])
    events = [event async for event in api.watch("/x", timeout_s=5)]
    assert [(event.type, event.object) for event in events] == [("ADDED", {"a": 1})]
    assert asked == ["42"]


async def test_a_token_bucket_spaces_what_exceeds_its_burst() -> None:
    class Stopped:
        slept = 0.0

        def monotonic(self) -> float:
            return 0.0

        async def sleep(self, seconds: float) -> None:
            self.slept = max(self.slept, seconds)

    clock = Stopped()
    bucket = TokenBucket(per_second=10, burst=2, clock=clock)  # type: ignore[arg-type]  # no now()
    for _ in range(5):
        await bucket.take()
    assert clock.slept == pytest.approx(0.3)


def test_a_service_account_is_found_by_its_files_and_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "token").write_text("t")
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "fd00::1")
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", "6443")
    found = in_cluster(tmp_path)
    assert found is not None
    assert found.server == "https://[fd00::1]:6443"
    assert in_cluster(tmp_path / "elsewhere") is None
