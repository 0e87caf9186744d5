"""vLLM holds its users to an older FastAPI than the gateway's own lock has: the routes are the same on both."""

import httpx
import pytest

from gateway.config import settings as settings_of
from gateway.http.guard import DrainState
from gateway.process.app import create_app
from tests.engine.engine_gateway import Hosted


@pytest.mark.parametrize(
    ("method", "path", "status", "allow"),
    [
        ("GET", "/v1/responses/resp_1/cancel", 405, "POST"),
        ("DELETE", "/v1/responses", 405, "GET, HEAD, POST"),
        ("GET", "/v1/nowhere", 404, None),
        ("GET", "/v1/models", 200, None),
    ],
)
def test_paths_and_methods_have_the_same_replies(
    method: str, path: str, status: int, allow: str | None, engine: Hosted
) -> None:
    reply = httpx.request(method, f"{engine.url}{path}", timeout=60)
    assert (reply.status_code, reply.headers.get("allow")) == (status, allow)


async def test_the_same_paths_are_described(engine: Hosted) -> None:
    app = create_app(settings_of.parse_settings({"store": {"url": None}}, environ={}), DrainState())
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://localhost") as here:
        ours = (await here.get("/openapi.json")).json()["paths"]
    async with httpx.AsyncClient(timeout=60) as client:
        theirs = (await client.get(f"{engine.url}/openapi.json")).json()["paths"]
    assert {path: set(methods) for path, methods in theirs.items()} == {
        path: set(methods) for path, methods in ours.items()
    }
