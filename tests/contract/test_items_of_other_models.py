"""Items of a model of one provider type are accepted for a model of any other type."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import orjson
import pytest

from providers.config import PROVIDER_DEFAULTS
from tests.contract.recorded_models import ANSWERS, FAILED, TARGETS, Gateway, sent
from tests.unit.support.golden import GOLDEN
from translation.representation.json_types import Item, Json

HI: Item = {"type": "message", "role": "user", "content": "Hi"}
GO_ON: Item = {"type": "message", "role": "user", "content": "Go on."}
SEALED: dict[str, Any] = {"include": ["reasoning.encrypted_content"]}


def recorded(paths: list[Path]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("recording", paths, ids=lambda path: f"{path.parent.name} {path.stem}")


@pytest.fixture(scope="module")
async def gateway() -> AsyncIterator[Gateway]:
    gateway = Gateway()
    yield gateway
    await gateway.aclose()


def model_of(recording: Path) -> str:
    return str(recording.relative_to(GOLDEN))


def targets_of(recording: Path) -> list[str]:
    """Returns all targets, and the recorded model itself, which gets its own seals back."""
    return [*TARGETS, model_of(recording)]


def outputs_of(output: list[Item]) -> list[Item]:
    """An output for each call."""
    ids = [item["call_id"] for item in output if item["type"] == "function_call"]
    return [{"type": "function_call_output", "call_id": each, "output": f"result of {each}"} for each in ids]


async def check_accepted(gateway: Gateway, api: str, target: str, texts: list[str], **body: Any) -> None:
    """The request is accepted, and what is sent for it holds the texts."""
    sent_body = await sent(await gateway.accept(api, model=target, **body))
    for text in texts:
        assert orjson.dumps(text)[1:-1] in sent_body or target == "scripted", target


def texts_in(parts: Any) -> list[str]:
    if isinstance(parts, str):
        return [parts]
    return [part["text"].strip() for part in parts or () if part["type"] == "output_text"]


@recorded([*ANSWERS, *FAILED])
@pytest.mark.parametrize("params", [{}, SEALED], ids=["open", "sealed"])
async def test_items_of_one_model_are_accepted_for_every_other(recording: Path, params: Json, gateway: Gateway) -> None:
    unstored = {"store": False, **params}
    first_request = {"model": model_of(recording), "input": "Hi", **unstored}
    if recording in FAILED:
        reply = await gateway.stream(**first_request)
    else:
        reply = await gateway.fetch_reply("responses", **first_request)
    output: list[Item] = reply["output"]
    if params and any(item["type"] == "reasoning" for item in output):
        assert any(item.get("encrypted_content") for item in output)
    outputs = outputs_of(output)
    texts = [text for item in output if item["type"] == "message" for text in texts_in(item["content"])]
    texts += [result["output"] for result in outputs]
    for target in targets_of(recording):
        again = [HI, *output, *outputs, GO_ON]
        await check_accepted(gateway, "responses", target, ["Hi", *texts, "Go on."], input=again, **unstored)


@recorded(ANSWERS)
async def test_messages_of_one_model_are_accepted_for_every_other(recording: Path, gateway: Gateway) -> None:
    hi, go_on = {"role": "user", "content": "Hi"}, {"role": "user", "content": "Go on."}
    reply = await gateway.fetch_reply("chat", model=model_of(recording), messages=[hi])
    message: Json = reply["choices"][0]["message"]
    calls = message.get("tool_calls") or ()
    results = [{"role": "tool", "tool_call_id": call["id"], "content": f"result of {call['id']}"} for call in calls]
    texts = ["Hi", (message["content"] or "").strip(), *(each["content"] for each in results), "Go on."]
    for target in targets_of(recording):
        await check_accepted(gateway, "chat", target, texts, messages=[hi, message, *results, go_on])


def test_every_provider_type_is_a_target_and_every_dialect_a_source() -> None:
    assert {target["type"] for target in TARGETS.values()} == PROVIDER_DEFAULTS.keys()
    assert {path.parent.name for path in ANSWERS} == {
        folder.name for folder in GOLDEN.iterdir() if folder.is_dir() and any(folder.glob("*.events"))
    }
