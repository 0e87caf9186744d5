"""Fetches embeddings from the upstream's `/v1/embeddings`, for APIs with other forms of embeddings."""

from collections.abc import Sequence
from typing import Final, NamedTuple

from starlette.requests import Request
from starlette.responses import Response

from dataplane.sharing.work_pool import run_for_count
from gateway.http.auth import Principal
from gateway.http.headers import headers_of
from gateway.http.json_reply import build_json_reply
from gateway.planning.plan import require_no_loss
from gateway.replies.loss_header import report_losses
from gateway.service.service import Service, is_strict
from gateway.vector_stores.embedder import read_vectors
from translation.decoding.usage import read_count
from translation.errors import Unrepresentable
from translation.representation.json_types import Json
from translation.representation.loss import Loss

_VALUES_OF_A_VECTOR: Final = 100
"""The weight of a vector that is checked. Its one or two thousand numbers are checked by one call, in some 15 µs."""


class Embeddings(NamedTuple):
    """The vectors of the texts of a request, in their order, and the headers of the reply."""

    vectors: list[list[float]]
    token_count: int | None
    """The number of tokens, as the upstream counted them."""
    headers: dict[str, str]

    async def build_reply(self, body: Json) -> Response:
        """Returns the reply with a body that has these vectors. Many numbers are written in a thread."""
        return await run_for_count(sum(map(len, self.vectors)), build_json_reply, body, headers=self.headers)


async def fetch_embeddings(
    service: Service,
    principal: Principal,
    request: Request,
    lifted: Json,
    losses: Sequence[Loss],
    *,
    dimensions_param: str,
) -> Embeddings:
    """Returns the embeddings for `lifted`, a body of `/v1/embeddings`. Without a text nothing is sent.

    `losses` are the losses of lifting, and `dimensions_param` is the client's name of `dimensions`. Raises
    Unrepresentable for a loss in strict mode and for vectors of another size, and what `Service.fetch_embeddings`
    raises.
    """
    route = service.models.find_route(lifted["model"], principal.models)
    require_no_loss(losses, strict=route.strict or is_strict(headers_of(request.scope)))
    headers = report_losses(losses)
    if not lifted["input"]:
        await service.models.get_model(lifted["model"], principal.models)
        return Embeddings([], None, headers)
    reply = await service.fetch_embeddings(principal, lifted, request)
    texts = len(lifted["input"])
    vectors = await run_for_count(texts * _VALUES_OF_A_VECTOR, read_vectors, reply, texts)
    dimensions = lifted.get("dimensions")
    if dimensions is not None and any(len(vector) != dimensions for vector in vectors):
        size = next(len(vector) for vector in vectors if len(vector) != dimensions)
        raise Unrepresentable(
            f"the model's upstream ignores the size of embeddings: it replied with {size} numbers instead of "
            f"{dimensions}. Leave '{dimensions_param}' out, or use another model",
            param=dimensions_param,
        )
    return Embeddings(vectors, count_input(reply), headers)


def count_input(reply: Json) -> int | None:
    """Returns the number of tokens that the upstream counted; None if it did not."""
    usage = reply.get("usage")
    return read_count(usage.get("prompt_tokens")) if isinstance(usage, dict) else None
