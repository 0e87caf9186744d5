"""The list of models is what the config names, and what upstreams behind patterns say they serve."""

import pytest

from gateway.errors import UnknownModel
from gateway.service.catalogue import Catalogue
from providers.errors import UpstreamUnreachable
from tests.unit.support.routing import Recorder, resolver

EVERY = ("*",)


async def names(catalogue: Catalogue, *allowed: str) -> list[str]:
    return [model["id"] for model in await catalogue.list_models(allowed or EVERY)]


async def test_names_are_listed_in_the_order_of_the_config() -> None:
    a = Recorder("a", served=["m1", "other"])
    catalogue = Catalogue(resolver({"mine": {"provider": "a"}, "m*": {"provider": "a"}}, a))
    assert await names(catalogue) == ["mine", "m1"]


async def test_a_model_is_an_object_of_the_api() -> None:
    [model] = await Catalogue(resolver({"mine": {"provider": "a"}}, Recorder("a"))).list_models(EVERY)
    assert isinstance(model.pop("created"), int)
    assert model == {"id": "mine", "object": "model", "owned_by": "a"}


async def test_a_name_served_twice_is_the_first_ones() -> None:
    a, b = Recorder("a", served=["m"]), Recorder("b", served=["m", "n"])
    catalogue = Catalogue(resolver({"m*": {"provider": "a"}, "*": {"provider": "b"}}, a, b))
    assert [(model["id"], model["owned_by"]) for model in await catalogue.list_models(EVERY)] == [
        ("m", "a"),
        ("n", "b"),
    ]


async def test_an_upstream_that_does_not_answer_is_left_out() -> None:
    a, b = Recorder("a", served=UpstreamUnreachable("down")), Recorder("b", served=["n"])
    catalogue = Catalogue(resolver({"a-*": {"provider": "a"}, "*": {"provider": "b"}}, a, b))
    assert await names(catalogue) == ["n"]


async def test_an_upstream_that_answers_no_longer_keeps_what_it_listed_last(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gateway.service.catalogue._REFRESH_S", 0.0)
    a = Recorder("a", served=["m"])
    catalogue = Catalogue(resolver({"*": {"provider": "a"}}, a))
    found = [await names(catalogue)]
    for served in (UpstreamUnreachable("down"), UpstreamUnreachable("down"), ["n"], []):
        a.served = served
        found.append(await names(catalogue))
    assert found == [["m"], ["m"], ["m"], ["n"], []]
    assert a.asked == len(found)


async def test_an_upstream_is_asked_once_a_minute_and_only_for_patterns() -> None:
    a, b = Recorder("a", served=["m"]), Recorder("b", served=["n"])
    catalogue = Catalogue(resolver({"n": {"provider": "b"}, "*": {"provider": "a"}}, a, b))
    for _ in range(3):
        await names(catalogue)
    assert (a.asked, b.asked) == (1, 0)


async def test_a_key_sees_the_models_it_may_use() -> None:
    catalogue = Catalogue(resolver({"a1": {"provider": "a"}, "b1": {"provider": "a"}}, Recorder("a")))
    assert await names(catalogue, "b*") == ["b1"]
    assert catalogue.get_model("b1", ("b*",))["id"] == "b1"
    with pytest.raises(UnknownModel):
        catalogue.get_model("a1", ("b*",))
