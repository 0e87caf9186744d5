"""Lifts content blocks to the content parts of Responses items: text, images, documents, search results."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

from translation.errors import Unrepresentable
from translation.lowering.media import UNNAMED_PDF
from translation.messages.schema.blocks import DOCUMENT_SOURCES, IMAGE_SOURCES, SOURCE_BLOCKS, require_known
from translation.messages.schema.request import ROLES
from translation.representation.items import new_input_text
from translation.representation.json_types import Json
from translation.representation.loss import Loss

CITATIONS_LOSS: Final = Loss("messages.content.citations", "dropped")
"""Citations of documents in the request can only be had from an upstream of the same API, and only it reads them."""


def lift_parts(content: str | Sequence[Json], param: str, losses: list[Loss]) -> list[Json]:
    """Returns the parts of a user's content, or of a tool's result. Losses are appended to `losses`.

    Raises Unrepresentable for a block that no part can represent. The error's `param` is its path under `param`.
    """
    if isinstance(content, str):
        return [new_input_text(content)]
    return [part for index, block in enumerate(content) for part in lift_block(block, f"{param}[{index}]", losses)]


def lift_block(block: Json, param: str, losses: list[Loss]) -> Iterator[Json]:
    """Returns the parts of one block, whose path is `param`. Does and raises what `lift_parts` does."""
    kind = block["type"]
    if kind not in _BLOCK_LIFTERS:
        raise _build_block_refusal(kind, param)
    citations = block.get("citations")
    # Documents have a switch for them. A text has those of an answer that it repeats.
    if citations and (not isinstance(citations, dict) or citations.get("enabled")):
        losses.append(CITATIONS_LOSS)
    return _BLOCK_LIFTERS[kind](block, param, losses)


def _build_block_refusal(kind: str, param: str) -> Unrepresentable:
    message = f"this model's upstream has no content blocks of type {kind!r:.100} there: leave it out"
    return Unrepresentable(message, param=param)


def has_file_source(body: Json) -> bool:
    """Whether a validated body names a file that a part of its turn would name, without lifting its messages."""
    return any(_names_file_among(message.get("content")) for message in body["messages"] if message["role"] in ROLES)


def _names_file_among(content: str | Sequence[Json] | None) -> bool:
    return isinstance(content, list) and any(map(_is_of_file, content))


def _is_of_file(block: Json) -> bool:
    match block["type"]:
        case "image":
            return bool(block["source"]["type"] == "file")
        case "document":
            source = block["source"]
            if source["type"] != "content":
                return bool(source["type"] == "file")
            content = source["content"]
            return not isinstance(content, str) and any(
                part["type"] == "image" and _is_of_file(part) for part in content
            )
        case "tool_result":
            return _names_file_among(block.get("content"))
    return False


def lift_answer_text(block: Json, losses: list[Loss]) -> Json:
    """Returns the part for a text of the assistant, with its citations of URLs. Others are appended to `losses`."""
    citations = block.get("citations")
    annotations = [
        annotation
        for citation in (citations if isinstance(citations, list) else ())
        if (annotation := _lift_citation(citation, block["text"], losses)) is not None
    ]
    return {"type": "output_text", "text": block["text"], "annotations": annotations}


def _lift_citation(citation: Any, text: str, losses: list[Loss]) -> Json | None:
    """Returns the annotation for a citation of a text.

    The cited text is the part of the answer if the gateway has written the citation. Anthropic's is the page's text,
    and the citation is of the whole block.
    """
    match citation:
        case {"type": "web_search_result_location", "url": str(url)} | {
            "type": "search_result_location",
            "source": str(url),
        }:
            title, cited = citation.get("title"), citation.get("cited_text")
            start = text.find(cited) if isinstance(cited, str) and cited else -1
            span = (0, len(text)) if start < 0 else (start, start + len(cited))
            return {
                "type": "url_citation",
                "url": url,
                "title": title if isinstance(title, str) else "",
                "start_index": span[0],
                "end_index": span[1],
            }
    losses.append(CITATIONS_LOSS)
    return None


def _lift_text(block: Json, _param: str, _losses: list[Loss]) -> Iterator[Json]:
    yield new_input_text(block["text"])


def _lift_image(block: Json, param: str, _losses: list[Loss]) -> Iterator[Json]:
    source = block["source"]
    require_known(source["type"], f"{param}.source.type", IMAGE_SOURCES)
    if source["type"] == "file":
        yield {"type": "input_image", "file_id": source["file_id"]}
        return
    url = source["url"] if source["type"] == "url" else f"data:{source['media_type']};base64,{source['data']}"
    yield {"type": "input_image", "image_url": url}


def _lift_document(block: Json, param: str, losses: list[Loss]) -> Iterator[Json]:
    source, title = block["source"], block.get("title")
    require_known(source["type"], f"{param}.source.type", DOCUMENT_SOURCES)
    if block.get("context"):
        yield new_input_text(block["context"])
    match source["type"]:
        case "text":
            yield new_input_text(f"{title}:\n{source['data']}" if title else source["data"])
        case "content":
            if title:
                yield new_input_text(f"{title}:")
            yield from _lift_source(source["content"], f"{param}.source.content", losses)
        case "file":
            yield {"type": "input_file", "file_id": source["file_id"], **({"filename": title} if title else {})}
        case "url":
            yield {"type": "input_file", "file_url": source["url"], **({"filename": title} if title else {})}
        case _:
            data = f"data:{source['media_type']};base64,{source['data']}"
            yield {"type": "input_file", "file_data": data, "filename": title or UNNAMED_PDF}


def _lift_source(content: str | Sequence[Json], param: str, losses: list[Loss]) -> list[Json]:
    """Returns the parts of the content that a document is made of. Raises Unrepresentable for other blocks."""
    for index, block in enumerate(() if isinstance(content, str) else content):
        if block["type"] not in SOURCE_BLOCKS:
            raise _build_block_refusal(block["type"], f"{param}[{index}]")
    return lift_parts(content, param, losses)


def _lift_search_result(block: Json, _param: str, _losses: list[Loss]) -> Iterator[Json]:
    texts = "\n\n".join(part["text"] for part in block["content"])
    yield new_input_text(f"{block['title']}\n{block['source']}\n\n{texts}")


def _lift_tool_reference(block: Json, _param: str, _losses: list[Loss]) -> Iterator[Json]:
    # The result of a tool that searches tools: the named ones are among the tools of the turn from now on.
    yield new_input_text(f"The tool {block.get('tool_name')} is available.")


_BLOCK_LIFTERS: Final[Mapping[str, Callable[[Json, str, list[Loss]], Iterator[Json]]]] = {
    "text": _lift_text,
    "image": _lift_image,
    "document": _lift_document,
    "search_result": _lift_search_result,
    "tool_reference": _lift_tool_reference,
}
"""Type of a block -> the function that lifts it. A type that is not listed is refused by name."""
