"""The paths that are only relayed: their names, and the interface of providers that relay them.

No reply is translated here: body and reply have the format of the upstream.
"""

from collections.abc import AsyncIterator, Mapping
from types import MappingProxyType
from typing import Final, Literal, NamedTuple, Protocol, TypeAlias, runtime_checkable

from translation.representation.json_types import Json

RelayedPathName: TypeAlias = Literal[
    "embeddings",
    "completions",
    "rerank",
    "moderations",
    "speech",
    "transcriptions",
    "translations",
    "image_generations",
    "image_edits",
    "image_variations",
    "tokenize",
    "detokenize",
]

URL_PATHS: Final[Mapping[RelayedPathName, str]] = MappingProxyType(
    {
        "embeddings": "/v1/embeddings",
        "completions": "/v1/completions",
        "rerank": "/v1/rerank",
        "moderations": "/v1/moderations",
        "speech": "/v1/audio/speech",
        "transcriptions": "/v1/audio/transcriptions",
        "translations": "/v1/audio/translations",
        "image_generations": "/v1/images/generations",
        "image_edits": "/v1/images/edits",
        "image_variations": "/v1/images/variations",
        "tokenize": "/tokenize",
        "detokenize": "/detokenize",
    }
)
"""The paths by their names, at the gateway and at an upstream whose API is at `/v1`. vLLM and llama.cpp have the last
two beside it."""


class Form(NamedTuple):
    """A multipart form that is read while it is sent."""

    content_type: str
    pieces: AsyncIterator[bytes]


class ReplyBytes(Protocol):
    """A reply with a success status, as bytes."""

    @property
    def content_type(self) -> str:
        """The media type in lower case, without parameters; empty if the upstream sent none."""
        ...

    @property
    def content_type_header(self) -> str:
        """The whole header `content-type`."""
        ...

    @property
    def content_length(self) -> int | None:
        """The number of bytes, if the upstream announced it."""
        ...

    def iterate_reads(self) -> AsyncIterator[bytes]:
        """Yields the body as it arrives. Raises ProviderError, also in the middle of the body."""
        ...

    async def read_whole(self) -> bytes:
        """Returns the whole body. Raises ProviderError, also for a body with more bytes or numbers than `max_line_mb`
        allows."""
        ...

    async def close(self, *, whole: bool = False) -> None:
        """Closes the connection, unless the body was read to its end."""
        ...


@runtime_checkable
class PathRelayer(Protocol):
    """A provider whose upstream has some of these paths, which `Capabilities.endpoints` lists."""

    async def relay_path(self, name: RelayedPathName, content: Json | Form, *, streams: bool) -> ReplyBytes:
        """Sends a body, and returns the reply once it has a success status. `streams`: it asks for an event stream.

        A form is sent once; anything else is retried like every request. Raises ProviderError, and Unrepresentable if
        the upstream has no such path.
        """
        ...
