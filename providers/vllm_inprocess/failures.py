"""Maps vLLM's exceptions to ProviderError."""

from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Final

from providers.errors import (
    EngineUnavailable,
    ProviderError,
    UpstreamBroken,
    UpstreamOverloaded,
    UpstreamRateLimited,
    UpstreamRejected,
)
from translation.chat.upstream.lower import TURN_PARAMS
from translation.errors import TranslationError
from translation.representation.param_names import find_turn_param

ENGINE_DIED: Final = "the engine died and is being restarted"


@contextmanager
def raise_provider_errors(vllm: ModuleType, *, client_errors: tuple[type[Exception], ...] = ()) -> Iterator[None]:
    """Raises every exception in the block as a ProviderError. `client_errors` are exceptions that an invalid request
    causes. ProviderError and TranslationError pass through."""
    try:
        yield
    except (ProviderError, TranslationError):
        raise
    except vllm.EngineDeadError as died:
        raise EngineUnavailable(ENGINE_DIED) from died
    except vllm.VLLMClientError as refused:
        raise build_rejection(refused) from refused
    except vllm.GracefulHTTPError as refused:
        raise _build_http_rejection(refused.message, int(refused.http_status)) from refused
    except client_errors as refused:
        raise build_rejection(refused) from refused
    except Exception as failure:
        # vLLM wraps the error of a request in another exception; only the cause says what went wrong.
        reason = failure.__cause__ or failure
        raise UpstreamBroken(f"the engine failed: {type(reason).__name__}: {reason}") from failure


def build_rejection(refused: Exception) -> UpstreamRejected:
    """Returns the engine's refusal of a request. It uses `args[0]`, because the text of the exception repeats the
    value, which may be a whole schema."""
    reason = refused.args[0] if refused.args else refused
    if refused.__cause__ is not None:
        reason = f"{reason} {refused.__cause__}"
    param = getattr(refused, "parameter", None)
    return UpstreamRejected(
        str(reason),
        status=400,
        kind="invalid_request_error",
        param=find_turn_param(param, TURN_PARAMS) if isinstance(param, str) else None,
    )


def _build_http_rejection(message: str, status: int) -> UpstreamRejected:
    kind = {429: UpstreamRateLimited, 503: UpstreamOverloaded}.get(status, UpstreamRejected)
    return kind(message, status=status)
