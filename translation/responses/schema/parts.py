"""The shapes of the content parts of messages and tool outputs in a Responses request."""

from collections.abc import Callable, Mapping
from typing import Annotated, Any, Literal, NotRequired, TypeAlias, TypeVar

from pydantic import AfterValidator, Field, Tag
from pydantic_core import PydanticCustomError
from typing_extensions import TypedDict

from translation.validation import discriminate_by

Status: TypeAlias = Literal["in_progress", "completed", "incomplete"]

Includable: TypeAlias = Literal[
    "file_search_call.results",
    "web_search_call.results",
    "web_search_call.action.sources",
    "message.input_image.image_url",
    "computer_call_output.output.image_url",
    "code_interpreter_call.outputs",
    "reasoning.encrypted_content",
    "message.output_text.logprobs",
    "gateway.report",
]
"""The values of `include`. The last is an extension: no upstream gets it."""

_PartT = TypeVar("_PartT", bound=Mapping[str, Any])


def _has_one_of(*keys: str) -> Callable[[_PartT], _PartT]:
    def require(part: _PartT) -> _PartT:
        if all(part.get(key) is None for key in keys):
            raise PydanticCustomError("one_of", "one of {keys} is needed", {"keys": ", ".join(keys)})
        return part

    return require


class InputText(TypedDict):
    type: Literal["input_text"]
    text: str


class InputImage(TypedDict):
    type: Literal["input_image"]
    image_url: NotRequired[str | None]
    file_id: NotRequired[str | None]
    detail: NotRequired[Literal["auto", "low", "high", "original"] | None]


class InputFile(TypedDict):
    type: Literal["input_file"]
    file_data: NotRequired[str | None]
    file_id: NotRequired[str | None]
    file_url: NotRequired[str | None]
    filename: NotRequired[str | None]
    detail: NotRequired[Literal["auto", "low", "high"] | None]


class Audio(TypedDict):
    data: str
    format: str


class InputAudio(TypedDict):
    type: Literal["input_audio"]
    input_audio: Audio


class OutputText(TypedDict):
    """OpenAI requires `annotations`. Clients that write assistant messages themselves omit them."""

    type: Literal["output_text"]
    text: str
    annotations: NotRequired[list[dict[str, Any]] | None]


class Refusal(TypedDict):
    type: Literal["refusal"]
    refusal: str


class EncryptedContent(TypedDict):
    type: Literal["encrypted_content"]
    encrypted_content: str


class SummaryText(TypedDict):
    type: Literal["summary_text"]
    text: str


class ReasoningText(TypedDict):
    type: Literal["reasoning_text"]
    text: str


_Text: TypeAlias = Annotated[InputText, Tag("input_text")]
_Image: TypeAlias = Annotated[InputImage, AfterValidator(_has_one_of("image_url", "file_id")), Tag("input_image")]
_File: TypeAlias = Annotated[
    InputFile, AfterValidator(_has_one_of("file_data", "file_id", "file_url")), Tag("input_file")
]

_InputPart: TypeAlias = Annotated[
    _Text | _Image | _File | Annotated[InputAudio, Tag("input_audio")], discriminate_by("type")
]

_AssistantPart: TypeAlias = Annotated[
    Annotated[OutputText, Tag("output_text")] | Annotated[Refusal, Tag("refusal")] | _Text, discriminate_by("type")
]

_AgentPart: TypeAlias = Annotated[
    _Text | _Image | Annotated[EncryptedContent, Tag("encrypted_content")], discriminate_by("type")
]

_OutputPart: TypeAlias = Annotated[_Text | _Image | _File, discriminate_by("type")]

InputContent: TypeAlias = str | Annotated[list[_InputPart], Field(fail_fast=True)]
"""Content of a user, developer or system message."""

AssistantContent: TypeAlias = str | Annotated[list[_AssistantPart], Field(fail_fast=True)]
"""Content of an assistant message. The API has no `input_text` there, but clients that build messages by hand send it.
"""

OutputContent: TypeAlias = str | Annotated[list[_OutputPart], Field(fail_fast=True)]
"""Content of a tool's output."""

AgentContent: TypeAlias = Annotated[list[_AgentPart], Field(fail_fast=True)]
"""Content of a message between agents."""
