"""Data that an upstream needs back reaches that upstream, and nobody else."""

from dataclasses import replace
from typing import Any

import orjson
import pytest

from gateway.sealing.reply_seal import ReasoningSeal, ReplyItemSeal
from gateway.sealing.sealer import Sealer
from translation.errors import InvalidRequest
from translation.hosted.citations.citables import CitablePage
from translation.hosted.citations.citation_table import build_result_details
from translation.representation.json_types import Item
from translation.representation.loss import Loss
from translation.representation.profile import Profile
from translation.representation.turn import Turn

SEALER = Sealer([b"k" * 32])
HERE = ReasoningSeal(SEALER, "ann", "claude", "opus", upstream_seals=False)
RELAY = replace(HERE, provider="openai", model="gpt", upstream_seals=True)
DETAILS = [{"type": "anthropic.thinking", "thinking": "Hm.", "signature": "s"}]
SUMMARY = [{"type": "summary_text", "text": "Hm."}]
CONTENT = [{"type": "reasoning_text", "text": "Hm."}]
THOUGHT: Item = {"type": "reasoning", "id": "rs_1", "summary": SUMMARY}
SIGNED: Item = {**THOUGHT, "details": DETAILS}
OWN: Item = {**THOUGHT, "encrypted_content": "gAAAA"}
MESSAGE: Item = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Hi"}]}
COMPACTION: Item = {"type": "compaction", "id": "cmp_1", "encrypted_content": "rgc1.x"}


def seal_item(item: Item, carrier: ReasoningSeal = HERE, *, included: bool = False) -> Item:
    return ReplyItemSeal(carrier, include_reasoning=included).seal_done_item(item)


def test_data_for_the_upstream_is_sealed_and_restored() -> None:
    for item, carrier in ((SIGNED, HERE), (OWN, RELAY), ({**SIGNED, "type": "web_search_call"}, HERE)):
        sealed = seal_item(item, carrier)
        assert "details" not in sealed
        assert sealed["encrypted_content"].startswith("rgr1.")
        assert "gAAAA" not in str(sealed)
        assert carrier.unseal_item(sealed) == item


@pytest.mark.parametrize("included", [True, False])
@pytest.mark.parametrize("item", [MESSAGE, COMPACTION, {"type": "reasoning", "summary": [], "content": None}])
def test_items_without_sealable_data_are_unchanged(item: Item, included: bool) -> None:
    assert seal_item(item, included=included) is item
    assert ReplyItemSeal(HERE, include_reasoning=included).seal_added_item(item) is item
    assert HERE.unseal_item(item) is item


def test_readable_reasoning_is_sealed_if_requested() -> None:
    item = {**THOUGHT, "content": CONTENT}
    assert seal_item(item) is item
    sealed = seal_item(item, included=True)
    assert {**sealed, "encrypted_content": None} == {**item, "encrypted_content": None}
    # Some clients send back only what they must.
    least = {"type": "reasoning", "summary": [], "encrypted_content": sealed["encrypted_content"]}
    assert HERE.unseal_item(least) == {"type": "reasoning", "summary": SUMMARY, "content": CONTENT}


@pytest.mark.parametrize("other", [{"provider": "gemini"}, {"model": "sonnet"}])
def test_another_upstream_gets_the_readable_part(other: Any) -> None:
    sealed = seal_item({**SIGNED, "content": CONTENT}, included=True)
    assert replace(HERE, **other).unseal_item(sealed) == {**THOUGHT, "content": CONTENT}


def test_another_upstream_learns_that_a_placeholder_is_no_thought() -> None:
    mark = {"type": "gemini.text", "thought": False, "signature": "s"}
    bare: Item = {"type": "reasoning", "id": "rs_1", "summary": []}
    other = replace(HERE, provider="ollama")
    assert other.unseal_item(seal_item({**bare, "details": [mark]})) == {**bare, "details": [{"thought": False}]}
    assert other.unseal_item(seal_item({**bare, "details": [mark, *DETAILS]})) == bare
    assert HERE.unseal_item(seal_item({**bare, "details": [mark]})) == {**bare, "details": [mark]}


def test_results_of_the_gateways_own_tools_are_for_every_upstream() -> None:
    own = build_result_details("【1】 Rain", {1: CitablePage("https://a.example", "Rain")})
    item: Item = {"type": "web_search_call", "id": "ws_1", "details": [*own]}
    sealed = seal_item(item)
    assert RELAY.unseal_item(sealed) == item
    assert HERE.find_maker([sealed]) is None, "no upstream has to be asked again because of it"
    mixed = seal_item({**item, "details": [*own, *DETAILS]})
    assert RELAY.unseal_item(mixed) == item
    assert HERE.find_maker([mixed]) == ("claude", "opus")
    assert RELAY.unseal_hosted_calls([sealed, seal_item(SIGNED)], {"web_search_call"})[0] == item


def test_the_data_of_a_started_item_is_sealed_at_its_end() -> None:
    seal = ReplyItemSeal(HERE, include_reasoning=False)
    assert seal.seal_added_item(SIGNED) == seal.seal_added_item(OWN) == THOUGHT


def test_an_item_has_the_same_seal_in_every_event() -> None:
    seal = ReplyItemSeal(RELAY, include_reasoning=False)
    once = seal.seal_done_item(OWN)
    assert seal.seal_done_item(dict(OWN)) == once
    assert seal.seal_done_item(once) is once
    assert seal.seal_done_item({**OWN, "encrypted_content": "gBBBB"}) != once


def test_a_seal_of_another_gateway_is_sealed_like_any_other() -> None:
    theirs = seal_item(OWN, replace(RELAY, sealer=Sealer([b"t" * 32])))
    assert RELAY.unseal_item(seal_item(theirs, RELAY)) == theirs


def test_without_a_key_data_for_the_upstream_is_not_sent() -> None:
    keyless = replace(HERE, sealer=Sealer([], lambda: None))
    assert seal_item(SIGNED, keyless) == seal_item(OWN, keyless) == THOUGHT


def changed(item: Item) -> Item:
    text = item["encrypted_content"]
    return {**item, "encrypted_content": text[:-2] + ("AA" if text[-2:] != "AA" else "BB")}


UNREADABLE: dict[str, Item] = {
    "changed": changed(seal_item(SIGNED)),
    "another owner's": seal_item(SIGNED, replace(HERE, owner="bob")),
    "under an unknown key": seal_item(SIGNED, replace(HERE, sealer=Sealer([b"x" * 32]))),
    "of another server": OWN,
}


@pytest.mark.parametrize("item", UNREADABLE.values(), ids=UNREADABLE)
def test_invalid_seals_are_refused_with_their_place(item: Item) -> None:
    with pytest.raises(InvalidRequest) as refused:
        HERE.check_input([MESSAGE, seal_item(SIGNED), item], 0)
    assert (refused.value.code, refused.value.param) == ("invalid_encrypted_content", "input[2].encrypted_content")
    with pytest.raises(InvalidRequest) as refused:
        HERE.check_input([MESSAGE, seal_item(SIGNED), item], 2)
    assert refused.value.param == "input[0].encrypted_content"


@pytest.mark.parametrize("item", UNREADABLE.values(), ids=UNREADABLE)
def test_invalid_seals_in_the_history_are_left_out(item: Item) -> None:
    HERE.check_input([item, MESSAGE], 1)
    assert HERE.unseal_item(item) == (item if item is OWN else THOUGHT)


@pytest.mark.parametrize("given", [None, "Hi", [], [MESSAGE, COMPACTION, THOUGHT, {"role": "user", "content": "Hi"}]])
def test_an_input_without_seals_passes(given: object) -> None:
    HERE.check_input(given, 0)


def test_an_upstream_with_seals_of_its_own_gets_them_back() -> None:
    RELAY.check_input([OWN], 0)
    assert RELAY.unseal_item(OWN) is OWN
    with pytest.raises(InvalidRequest):
        RELAY.check_input([UNREADABLE["changed"]], 0)


def test_only_turns_with_seals_are_unsealed() -> None:
    turn = Turn(model="opus", items=[MESSAGE, seal_item(SIGNED)])
    assert HERE.unseal_turn(turn).items == [MESSAGE, SIGNED]
    plain = Turn(model="opus", items=[MESSAGE])
    assert HERE.unseal_turn(plain) is plain


def test_a_relay_gets_its_own_data_back_and_other_data_as_its_profile_requires() -> None:
    foreign = seal_item({**SIGNED, "content": CONTENT}, included=True)
    given = [
        {"role": "user", "content": "Hi"},
        seal_item(OWN, RELAY),
        foreign,
        seal_item({**SIGNED, "type": "web_search_call"}),
    ]
    search = {**THOUGHT, "type": "web_search_call"}
    items, losses = RELAY.unseal_relayed_items(given, Profile(replay_reasoning="none"))
    assert items == [given[0], OWN, search]
    assert losses == [Loss("input[2]", "reasoning dropped")]
    items, losses = RELAY.unseal_relayed_items(given, Profile(replay_reasoning="reasoning"))
    assert items == [given[0], OWN, {**THOUGHT, "content": CONTENT}, search]
    assert losses == []


@pytest.mark.parametrize(
    ("event", "included", "concerned"),
    [
        ({"item": OWN}, False, True),
        ({"item": THOUGHT}, False, False),
        ({"item": THOUGHT}, True, True),
        ({"item": MESSAGE}, True, False),
    ],
)
def test_only_events_that_may_have_sealable_data_are_parsed(event: Any, included: bool, concerned: bool) -> None:
    assert ReplyItemSeal(RELAY, include_reasoning=included).may_need_seal(orjson.dumps(event)) is concerned
