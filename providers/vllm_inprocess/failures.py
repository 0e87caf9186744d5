"""vLLM's exceptions by what they mean here."""

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
from translation.errors import TranslationError

ENGINE_DIED: Final = "the engine died and is being started again"


@contextmanager
def raise_provider_errors(vllm: ModuleType, *, client_errors: tuple[type[Exception], ...] = ()) -> Iterator[None]:
    """Raise every failure of the engine as a ProviderError. `theirs`: failures that are the request's doing."""
    try:
        yield
    except (ProviderError, TranslationError):
        raise
    except vllm.EngineDeadError as died:
        raise EngineUnavailable(ENGINE_DIED) from died
    except vllm.VLLMClientError as refused:
        raise rejection_of(refused) from refused
    except vllm.GracefulHTTPError as refused:
        raise _http_rejection_of(refused.message, int(refused.http_status)) from refused
    except client_errors as refused:
        raise rejection_of(refused) from refused
    except Exception as failure:
        # vLLM wraps what went wrong with one request, and says only in the cause what it was.
        reason = failure.__cause__ or failure
        raise UpstreamBroken(f"the engine failed: {type(reason).__name__}: {reason}") from failure


def rejection_of(refused: Exception) -> UpstreamRejected:
    """The engine's refusal of a request. Its own text would repeat the value, which may be the whole schema."""
    reason = refused.args[0] if refused.args else refused
    if refused.__cause__ is not None:
        reason = f"{reason} {refused.__cause__}"
    return UpstreamRejected(
        str(reason), status=400, kind="invalid_request_error", param=getattr(refused, "parameter", None)
    )


def _http_rejection_of(message: str, status: int) -> UpstreamRejected:
    kind = {429: UpstreamRateLimited, 503: UpstreamOverloaded}.get(status, UpstreamRejected)
    return kind(message, status=status)
