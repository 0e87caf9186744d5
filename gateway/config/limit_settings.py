"""The section `limits` of the configuration."""

from pydantic import BaseModel, ConfigDict, Field

from providers.config import Number, WholeNumber


class LimitSettings(BaseModel):
    """What one owner may have at once, so that no client stops the others. Beyond it, requests get status 429.

    The owner of a request is the name of its API key. Without `auth` everyone is the same owner, and the first two do
    not apply.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    open_requests: WholeNumber = Field(
        default=1000, ge=1, description="Requests of one key that are open at once in one server process."
    )
    websockets: WholeNumber = Field(
        default=200, ge=1, description="WebSockets of one key that are open at once in one server process."
    )
    background_jobs: WholeNumber = Field(
        default=1000,
        ge=1,
        description="Responses of one owner that run in the background, or can be resumed, and have not ended: in all "
        "server processes together, and with those that are queued.",
    )
    event_log_mb: Number = Field(
        default=1024.0, gt=0, description="Size of one owner's streams that can be replayed, in MiB."
    )
    idempotency_keys: WholeNumber = Field(
        default=1_000_000,
        ge=1,
        description="Values of `Idempotency-Key` that are stored for one owner. They are counted once a minute.",
    )
