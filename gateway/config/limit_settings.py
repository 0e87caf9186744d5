"""The section `limits` of the configuration."""

from pydantic import BaseModel, ConfigDict, Field

from providers.overrides import Number, WholeNumber


class LimitSettings(BaseModel):
    """Limits per owner, so that no client can stop the others. Requests beyond a limit get status 429.

    The owner of a request is the name of its API key. Without `auth` all requests have the same owner, and
    `open_requests` and `websockets` do not apply.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    open_requests: WholeNumber = Field(
        default=1000, ge=1, description="The most requests of one key that are open at once in one server process."
    )
    websockets: WholeNumber = Field(
        default=200, ge=1, description="The most WebSockets of one key that are open at once in one server process."
    )
    background_jobs: WholeNumber = Field(
        default=1000,
        ge=1,
        description="The most responses of one owner that run in the background, or can be resumed, and have not "
        "ended. They are counted over all server processes, including queued ones.",
    )
    event_log_mb: Number = Field(
        default=1024.0, gt=0, description="The largest size of one owner's streams that can be replayed, in MiB."
    )
    idempotency_keys: WholeNumber = Field(
        default=1_000_000,
        ge=1,
        description="The most values of `Idempotency-Key` that are stored for one owner. They are counted once a "
        "minute.",
    )
