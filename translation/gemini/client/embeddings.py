"""Translates embeddings between Gemini's API and OpenAI's `/v1/embeddings`. https://ai.google.dev/api/embeddings"""

from collections.abc import Iterator, Sequence
from typing import Final

from translation.errors import InvalidRequest, Unrepresentable
from translation.gemini.schema.embedded import (
    EMBED_FIELDS,
    SETTINGS,
    find_unknown_in_content,
    read_batch_request,
    read_embed_request,
)
from translation.gemini.schema.request import require_path_model
from translation.representation.json_types import Json
from translation.representation.loss import Loss

_DIMENSIONS: Final = "outputDimensionality"


def lift_embed_content(body: Json, model: str, losses: list[Loss]) -> Json:
    """Returns the `/v1/embeddings` body for an `embedContent` body. Losses are appended to `losses`.

    `model` is the model in the path. Raises InvalidRequest, and Unrepresentable for a content that is not text.
    """
    return _lift_requests([("", read_embed_request(body))], model, losses)


def lift_batch_embed_contents(body: Json, model: str, losses: list[Loss]) -> Json:
    """Returns the `/v1/embeddings` body for a `batchEmbedContents` body. Losses are appended to `losses`."""
    batch = read_batch_request(body)
    require_path_model(batch.get("model"), model, "model")
    losses += [Loss(f"{key:.50}", "dropped") for key in batch if key not in ("model", "requests")]
    requests = [(f"requests[{index}].", request) for index, request in enumerate(batch["requests"])]
    return _lift_requests(requests, model, losses)


def _lift_requests(requests: Sequence[tuple[str, Json]], model: str, losses: list[Loss]) -> Json:
    """Returns the body for requests, each with the prefix of its fields in errors."""
    texts: list[str] = []
    dimensions: list[int | None] = []
    reported = set(losses)
    for prefix, request in requests:
        require_path_model(request.get("model"), model, f"{prefix}model")
        texts.append(_read_text(request["content"], f"{prefix}content"))
        settings: Json = {**request, **request.get("embedContentConfig", {})}
        dimensions.append(settings.get(_DIMENSIONS))
        if dimensions[-1] != dimensions[0]:
            raise InvalidRequest(
                f"All requests of a batch must have one '{_DIMENSIONS}': send another batch for another one.",
                param=f"{prefix}{_DIMENSIONS}",
            )
        added = [loss for loss in _list_losses(request, settings) if loss not in reported]
        losses += added
        reported.update(added)
    lifted: Json = {"model": model, "input": texts, "encoding_format": "float"}
    if dimensions[0] is not None:
        lifted["dimensions"] = dimensions[0]
    return lifted


def _read_text(content: Json, param: str) -> str:
    """Returns the text of a content. Its parts are one text, which has one embedding."""
    for index, part in enumerate(content["parts"]):
        if "text" not in part:
            kind = next(iter(part), "nothing")
            raise Unrepresentable(
                f"embeddings are of texts here, not of {kind!r:.100}: send parts with a text",
                param=f"{param}.parts[{index}]",
            )
    text = "".join(part["text"] for part in content["parts"])
    if not text:
        raise InvalidRequest(f"'{param}' has no text.", param=param)
    return text


def _list_losses(request: Json, settings: Json) -> Iterator[Loss]:
    config = request.get("embedContentConfig", {})
    unknown = [*(request.keys() - EMBED_FIELDS), *(config.keys() - SETTINGS)]
    yield from (Loss(f"{key:.50}", "dropped") for key in sorted(unknown))
    yield from (Loss(path, "dropped") for path in find_unknown_in_content(request))
    yield from (Loss(key, "dropped") for key in ("taskType", "title", "autoTruncate") if settings.get(key))
    if settings.get("autoTruncate") is False:
        # `/v1/embeddings` has no such parameter. Most servers refuse a text that is too long; Ollama's shortens it.
        yield Loss("autoTruncate", "not enforced")


def build_embedded_content(vector: Sequence[float], token_count: int | None) -> Json:
    """Returns the reply of `embedContent`."""
    return {"embedding": {"values": vector}, **_build_usage(token_count)}


def build_embedded_batch(vectors: Sequence[Sequence[float]], token_count: int | None) -> Json:
    """Returns the reply of `batchEmbedContents`. `token_count` counts the tokens of all contents."""
    return {"embeddings": [{"values": vector} for vector in vectors], **_build_usage(token_count)}


def _build_usage(token_count: int | None) -> Json:
    return {} if token_count is None else {"usageMetadata": {"promptTokenCount": token_count}}
