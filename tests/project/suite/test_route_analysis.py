"""Applications share what is found in signatures, and nothing else: each calls its own endpoints."""

import functools
from collections.abc import AsyncIterator, Callable
from typing import Annotated, Any

import httpx
import pytest
from fastapi import Depends, FastAPI, Query
from fastapi.routing import APIRoute

from tests.shared.route_analysis import identify_endpoint, share_route_analysis

Endpoint = Callable[..., Any]


def make_app(answer: str, kind: type = int, default: Any = 7) -> FastAPI:
    app = FastAPI()

    @app.get("/{number}")
    async def read(number: kind, more: Annotated[int, Query(ge=1)] = default) -> list[Any]:  # type: ignore[valid-type]
        return [answer, number, more]

    return app


def find_endpoint(app: FastAPI) -> Endpoint:
    (endpoint,) = (route.endpoint for route in app.routes if isinstance(route, APIRoute) and route.path == "/{number}")
    return endpoint


@pytest.fixture(autouse=True)
def shared_analysis(monkeypatch: pytest.MonkeyPatch) -> None:
    share_route_analysis(monkeypatch)


async def ask(app: FastAPI, path: str) -> tuple[int, Any]:
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://here") as http:
        reply = await http.get(path)
    return reply.status_code, reply.json()


async def test_each_application_calls_its_own_endpoint() -> None:
    one, other = make_app("one"), make_app("other")
    assert await ask(one, "/3") == (200, ["one", 3, 7])
    assert await ask(other, "/3?more=2") == (200, ["other", 3, 2])
    assert (await ask(other, "/3?more=0"))[0] == 422


async def test_the_same_code_with_another_annotation_or_default_is_examined_for_itself() -> None:
    make_app("first")
    assert await ask(make_app("text", kind=str), "/a") == (200, ["text", "a", 7])
    assert await ask(make_app("eight", default=8), "/3") == (200, ["eight", 3, 8])


def test_two_applications_share_an_examination() -> None:
    one, other = (identify_endpoint("/{number}", find_endpoint(make_app(name)), {}) for name in ("one", "other"))
    assert one == other is not None


@pytest.mark.parametrize("path", ["/{number}", "/{number}/more"])
def test_an_examination_is_of_one_path(path: str) -> None:
    endpoint = find_endpoint(make_app("one"))
    same = identify_endpoint(path, endpoint, {}) == identify_endpoint("/{number}", endpoint, {})
    assert same == (path == "/{number}")


def test_what_is_known_by_its_address_alone_is_not_shared() -> None:
    async def read(number: Annotated[int, Depends(lambda: 1)]) -> None:
        pass

    assert identify_endpoint("/", read, {}) is None


def make_endpoint(kind: str) -> Endpoint:
    async def replies() -> str:
        return "async"

    def blocks() -> str:
        return "sync"

    async def streams() -> AsyncIterator[str]:
        yield "item"

    return {"replies": replies, "blocks": blocks, "streams": streams}[kind]


@pytest.mark.parametrize(("kind", "answer"), [("replies", '"async"'), ("blocks", '"sync"'), ("streams", '"item"\n')])
async def test_each_kind_of_function_is_called_as_its_kind(kind: str, answer: str) -> None:
    for _ in range(2):
        app = FastAPI()
        app.get("/")(make_endpoint(kind))
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://here") as http:
            assert (await http.get("/")).text == answer


async def test_a_function_that_wraps_another_is_examined_for_itself() -> None:
    async def replies() -> int:
        return 1

    def wrap(inner: Endpoint) -> Endpoint:
        @functools.wraps(inner)
        def wrapped() -> Any:
            return inner()

        return wrapped

    for inner, expected in ((replies, 1), (make_endpoint("blocks"), "sync")):
        app = FastAPI()
        app.get("/", response_model=None)(wrap(inner))
        assert await ask(app, "/") == (200, expected)


async def test_the_same_code_with_another_result_is_examined_for_itself() -> None:
    def make(result: type) -> FastAPI:
        app = FastAPI()

        @app.get("/")
        async def read() -> result:  # type: ignore[valid-type]
            return "7"

        return app

    assert await ask(make(int), "/") == (200, 7)
    assert await ask(make(str), "/") == (200, "7")
