"""Relays paths whose bodies and replies are forwarded without parsing: embeddings, audio, images and the like."""

from providers.errors import UpstreamModelNotFound
from providers.http.upstream import Upstream
from providers.http.upstream_reply import UpstreamReply
from providers.relayed_paths import URL_PATHS, Form, RelayedPathName
from translation.errors import Unrepresentable
from translation.representation.json_types import Json

_VERSION = "/v1"

_ANY_TYPE = "*/*"
_EVENT_STREAM = "text/event-stream"


async def relay_path(
    upstream: Upstream, name: RelayedPathName, content: Json | Form, *, streams: bool, has_version: bool
) -> UpstreamReply:
    """Sends a body to a path and returns the reply once it has a success status.

    `has_version`: the upstream's base URL ends with the version of its API. Raises ProviderError, and Unrepresentable
    if the upstream replies that it has no such path.
    """
    path = URL_PATHS[name]
    at_root = has_version and not path.startswith(_VERSION)
    if has_version and not at_root:
        path = path.removeprefix(_VERSION)
    try:
        if isinstance(content, Form):
            return await upstream.upload(path, content.pieces, content_type=content.content_type, at_root=at_root)
        accept = f"{_EVENT_STREAM}, {_ANY_TYPE}" if streams else _ANY_TYPE
        return await upstream.post(path, content, stream=streams, at_root=at_root, accept=accept)
    except UpstreamModelNotFound as error:
        if error.code is not None or "model" in error.message.lower():
            raise
        # Servers reply like this to a path that they do not have. Then nothing is wrong with the model's name.
        raise Unrepresentable(
            f"the model's upstream has no {URL_PATHS[name]} ({error.message}): use a model whose upstream has "
            "it. The operator can take it from `capabilities.endpoints` of this model",
            param="model",
        ) from error
