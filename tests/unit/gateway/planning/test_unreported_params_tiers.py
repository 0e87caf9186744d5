"""gateway/planning/unreported_params.py: a tier that no upstream confirmed is a loss."""

from typing import Any

import httpx
import pytest

from gateway.planning.unreported_params import ServiceTierCheck, requests_tier
from gateway.replies.loss_header import collect_facts, collect_unreported
from tests.serving import serving
from tests.upstream import ScriptedUpstream
from tests.upstream.builders import chat_text, json_reply, whole_chat
from translation.representation.delta_runs import TextKey, TextObserver
from translation.representation.events import Delta, Event, Failed, Finished, Noted, Started

REPLIES: dict[str, tuple[list[Event], list[str]]] = {
    "no tier": ([Started("m"), Finished("stop")], ["service_tier"]),
    "other facts": ([Noted(facts={"system_fingerprint": "f"}), Finished("stop")], ["service_tier"]),
    "a tier": ([Started("m"), Noted(facts={"service_tier": "default"}), Finished("stop")], []),
    "a tier in the closing snapshot": ([Finished("stop", response={"service_tier": "flex"})], []),
    "a failure": ([Started("m"), Failed("upstream_error", "no")], []),
}


@pytest.mark.parametrize(("events", "unreported"), REPLIES.values(), ids=REPLIES)
def test_a_reply_without_a_tier_reports_that_at_its_end(events: list[Event], unreported: list[str]) -> None:
    check = ServiceTierCheck(None)
    fed = [event for event in events for event in check.feed([event])]
    assert collect_unreported(collect_facts(fed)) == unreported
    assert [event for event in fed if event in events] == events
    assert fed[-1] == events[-1]


class Stage:
    """A stage before the check."""

    def feed(self, batch: list[Event]) -> list[Event]:
        return [*batch, *batch]

    def delta_observers(self, text_key: TextKey) -> list[TextObserver]:
        return [print]


def test_the_stage_before_it_is_fed_first() -> None:
    check = ServiceTierCheck(Stage())  # type: ignore[arg-type]
    assert check.feed([Delta(0, 0, "a")]) == [Delta(0, 0, "a"), Delta(0, 0, "a")]
    assert check.delta_observers((0, 0)) == [print]
    assert ServiceTierCheck(None).delta_observers((0, 0)) == ()
    assert ServiceTierCheck(None).feed([]) == []


@pytest.mark.parametrize("tier", [None, "auto", "default"])
def test_default_tiers_are_not_checked(tier: str | None) -> None:
    assert not requests_tier({"service_tier": tier})


ASKED: dict[str, tuple[str, dict[str, Any], str | None, str, str | None]] = {
    "reported": ("openai_compatible", {"service_tier": "priority"}, "priority", "priority", None),
    "not reported": ("openai_compatible", {}, "priority", "default", "service_tier=not reported"),
    "a server without tiers": ("vllm", {}, None, "default", "service_tier=dropped"),
}


@pytest.mark.parametrize(("kind", "reported", "sent", "answered", "loss"), ASKED.values(), ids=ASKED)
async def test_a_client_is_informed_of_an_unconfirmed_tier(
    kind: str, reported: dict[str, Any], sent: str | None, answered: str, loss: str | None
) -> None:
    async with ScriptedUpstream() as upstream:
        upstream.on("/chat/completions", json_reply({**whole_chat("Hi"), **reported}))
        config: dict[str, Any] = {
            "providers": {"up": {"type": kind, "base_url": upstream.url}},
            "models": {"*": {"provider": "up"}},
        }
        with serving(config) as gateway:
            async with httpx.AsyncClient(base_url=gateway.v1, timeout=60) as client:
                body = {"model": "m", "input": "Hi", "service_tier": "priority"}
                translated = await client.post("/responses", json=body)
                chat = {"model": "m", "messages": [{"role": "user", "content": "Hi"}], "service_tier": "flex"}
                relayed = await client.post("/chat/completions", json=chat)
                upstream.on("/chat/completions", chat_text("Hi"))
                streamed = await client.post("/responses", json={**body, "stream": True})
        first, second, _ = upstream.requests
    assert (translated.json()["service_tier"], translated.headers.get("x-gateway-loss")) == (answered, loss)
    assert first.json.get("service_tier") == sent
    assert second.json.get("service_tier") == (sent and "flex")
    assert relayed.json().get("service_tier") == reported.get("service_tier")
    known = loss if kind == "vllm" else None
    assert (relayed.headers.get("x-gateway-loss"), streamed.headers.get("x-gateway-loss")) == (known, known)
