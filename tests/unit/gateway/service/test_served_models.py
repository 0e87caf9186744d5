"""The list of models has the configured names, and those that upstreams behind patterns list."""

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from gateway.errors import UnknownModel
from gateway.service.served_models import ServedModels
from providers.errors import UpstreamUnreachable
from tests.unit.support.routing import Recorder, resolver

EVERY = ("*",)


async def names(served: ServedModels, *allowed: str) -> list[str]:
    return [model["id"] for model in await served.list_models(allowed or EVERY)]


async def test_names_are_listed_in_the_order_of_the_config() -> None:
    a = Recorder("a", served=["m1", "other"])
    served = ServedModels(resolver({"mine": {"provider": "a"}, "m*": {"provider": "a"}}, a))
    assert await names(served) == ["mine", "m1"]


async def test_a_model_is_an_object_of_the_api() -> None:
    [model] = await ServedModels(resolver({"mine": {"provider": "a"}}, Recorder("a"))).list_models(EVERY)
    assert isinstance(model.pop("created"), int)
    assert model == {"id": "mine", "object": "model", "owned_by": "a"}


async def test_a_name_served_twice_is_the_first_ones() -> None:
    a, b = Recorder("a", served=["m"]), Recorder("b", served=["m", "n"])
    served = ServedModels(resolver({"m*": {"provider": "a"}, "*": {"provider": "b"}}, a, b))
    assert [(model["id"], model["owned_by"]) for model in await served.list_models(EVERY)] == [
        ("m", "a"),
        ("n", "b"),
    ]


async def test_an_upstream_that_does_not_answer_is_left_out() -> None:
    a, b = Recorder("a", served=UpstreamUnreachable("down")), Recorder("b", served=["n"])
    served = ServedModels(resolver({"a-*": {"provider": "a"}, "*": {"provider": "b"}}, a, b))
    assert await names(served) == ["n"]


async def test_an_unavailable_upstream_keeps_its_last_list(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gateway.service.served_models._REFRESH_S", 0.0)
    a = Recorder("a", served=["m"])
    served = ServedModels(resolver({"*": {"provider": "a"}}, a))
    found = [await names(served)]
    for listed in (UpstreamUnreachable("down"), UpstreamUnreachable("down"), ["n"], []):
        a.served = listed
        found.append(await names(served))
    assert found == [["m"], ["m"], ["m"], ["n"], []]
    assert a.asked == len(found)


async def test_upstreams_are_queried_once_a_minute_and_only_for_patterns() -> None:
    a, b = Recorder("a", served=["m"]), Recorder("b", served=["n"])
    served = ServedModels(resolver({"n": {"provider": "b"}, "*": {"provider": "a"}}, a, b))
    for _ in range(3):
        await names(served)
    assert (a.asked, b.asked) == (1, 0)


async def test_a_key_sees_the_models_it_may_use() -> None:
    served = ServedModels(resolver({"a1": {"provider": "a"}, "b1": {"provider": "a"}}, Recorder("a")))
    assert await names(served, "b*") == ["b1"]
    assert (await served.get_model("b1", ("b*",)))["id"] == "b1"
    with pytest.raises(UnknownModel):
        await served.get_model("a1", ("b*",))


class Slow(Recorder):
    """A provider whose model list never arrives."""

    async def list_models(self) -> list[str]:
        self.asked += 1
        await asyncio.Event().wait()
        return []


def served_of(*names: str | Exception, models: dict[str, Any] | None = None) -> tuple[ServedModels, Recorder]:
    """The models of one upstream that lists these names, or fails."""
    a = Recorder("a", served=names[0] if isinstance(names[0], Exception) else [str(name) for name in names])
    return ServedModels(resolver(models or {"*": {"provider": "a"}}, a)), a


async def require(served: ServedModels, name: str, allowed: tuple[str, ...] = EVERY) -> None:
    await served.require_listed(served._resolver.resolve(name, allowed), allowed)


async def test_listed_names_cost_one_list() -> None:
    served, a = served_of("qwen3:8b", "llama3:latest")
    for name in ("qwen3:8b", "llama3", "Qwen3:8B", "llama3:latest"):
        await require(served, name)
    assert a.asked == 1


async def test_an_unlisted_name_is_refused_with_similar_ones() -> None:
    served, a = served_of("qwen3-8b", "qwen3-14b", "llama")
    with pytest.raises(
        UnknownModel, match=r"'qwen3-80b' does not exist: did you mean qwen3-8b or qwen3-14b\?"
    ) as unknown:
        await require(served, "qwen3-80b")
    assert unknown.value.param == "model"
    with pytest.raises(UnknownModel, match="'gpt-4o' does not exist: GET /v1/models lists those that do"):
        await require(served, "gpt-4o")
    with pytest.raises(UnknownModel) as long:
        await require(served, "qwen3-8b" * 100_000)
    assert len(long.value.message) < 400
    assert a.asked == 1, "a list of a moment ago is new enough"


async def test_similar_names_are_those_that_the_key_may_use() -> None:
    models = {"mine-1": {"provider": "a"}, "*": {"provider": "a"}}
    served, _ = served_of("mine-2", "other", models=models)
    with pytest.raises(UnknownModel, match=r"did you mean mine-1 or mine-2\?"):
        await require(served, "mine-3")
    with pytest.raises(UnknownModel, match="GET /v1/models"):
        await require(served, "minor", ("min*r",))


async def test_a_model_that_was_loaded_since_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gateway.service.served_models._RECHECK_S", 0.0)
    served, a = served_of("old")
    await require(served, "old")
    a.served = ["old", "new"]
    await require(served, "new")
    assert a.asked == 2


@pytest.mark.parametrize(
    "failing", [served_of(UpstreamUnreachable("down")), served_of("")], ids=["down", "an empty name"]
)
async def test_an_unavailable_list_refuses_no_name(failing: tuple[ServedModels, Recorder]) -> None:
    served, a = failing
    a.served = a.served if isinstance(a.served, Exception) else []
    for _ in range(3):
        await require(served, "any")
    assert a.asked == 1


async def test_a_slow_list_delays_one_request(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gateway.service.served_models._LIST_WAIT_S", 0.01)
    a = Slow("a")
    served = ServedModels(resolver({"*": {"provider": "a"}}, a))
    await asyncio.gather(*(require(served, "any") for _ in range(3)))
    assert a.asked == 1


async def test_a_list_that_becomes_unavailable_refuses_no_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gateway.service.served_models._RECHECK_S", 0.0)
    served, a = served_of("old")
    await require(served, "old")
    a.served = UpstreamUnreachable("down")
    await require(served, "new")
    await require(served, "newer")
    assert a.asked == 2


async def test_many_requests_wait_for_one_list() -> None:
    served, a = served_of("m")
    await asyncio.gather(*(require(served, "m") for _ in range(50)))
    assert a.asked == 1


async def test_configured_names_are_not_checked_against_a_list() -> None:
    models: dict[str, Any] = {"mine": {"provider": "a"}, "alias-*": {"provider": "a", "model": "m"}}
    served, a = served_of("other", models=models)
    for name in ("mine", "alias-1"):
        await require(served, name)
    assert a.asked == 0


def shared_pattern(a: Sequence[str] | Exception, b: Sequence[str] | Exception, **second: Any) -> ServedModels:
    """The models of a pattern with two upstreams that list these names."""
    rows = [{"provider": "a"}, {"provider": "b", **second}]
    providers = (Recorder("a", served=a), Recorder("b", served=b))
    return ServedModels(resolver({"m*": {"upstreams": rows}}, *providers))


async def test_a_pattern_lists_the_names_of_all_its_upstreams() -> None:
    served = shared_pattern(["m1", "both-not"], ["m1", "m2"])
    assert [(model["id"], model["owned_by"]) for model in await served.list_models(EVERY)] == [("m1", "a"), ("m2", "b")]


@pytest.mark.parametrize(
    ("a", "b", "second", "is_known"),
    [
        (["m1"], ["m2"], {}, True),
        (["m2"], ["m1"], {}, True),
        (["m1"], ["m1"], {}, False),
        (["m1"], UpstreamUnreachable("down"), {}, True),
        (UpstreamUnreachable("down"), ["m1"], {}, True),
        (["m1"], [], {"capabilities": {"models": False}}, True),
        (["m1"], [], {"model": "fixed"}, True),
        (["m1"], ["m2"], {"weight": 0}, False),
        (["m1"], [], {"capabilities": {"models": False}, "weight": 0}, False),
    ],
    ids=str,
)
async def test_one_upstream_of_a_pattern_that_may_have_a_model_makes_it_known(
    a: Sequence[str] | Exception, b: Sequence[str] | Exception, second: dict[str, Any], is_known: bool
) -> None:
    served = shared_pattern(a, b, **second)
    if is_known:
        await require(served, "m2")
    else:
        with pytest.raises(UnknownModel, match="'m2' does not exist"):
            await require(served, "m2")


async def test_the_owner_of_a_model_is_the_first_upstream_that_lists_it() -> None:
    assert (await shared_pattern(["m1"], ["m2"]).get_model("m2", EVERY))["owned_by"] == "b"


async def test_an_upstream_that_gets_no_turns_is_not_asked_for_its_models() -> None:
    assert await names(shared_pattern(["m1"], ["m2"], weight=0)) == ["m1"]
