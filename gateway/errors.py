"""The exceptions that the gateway itself raises. `error_replies.py` has the reply for each.

GatewayError
  NotAuthenticated     no API key, or one that is unknown or expired
  NotAdministrator     the route requires a key with `admin: true`
  ServerNameTaken      another MCP server has the label or the prefix
  UnknownModel         the name matches no model that this key may use
  NotJson              the body is not one JSON object
  HeadMalformed        the request is not HTTP/1.1, or its head lacks the header `Host`, or what a WebSocket needs
  HeadTooLarge         the first line and the headers are over `server.max_head_kb` or `server.max_head_fields`
  TargetTooLong        the path and query alone are over `server.max_head_kb`
  HeadTooSlow          the head did not arrive within `server.head_s`
  BodyTooLarge         the body is over `server.max_body_mb`
  BodyTooSlow          the body did not arrive in time
  UnsupportedEncoding  the body has a compression that is not known, or is a compressed form
  UnsupportedContentType  a web page sent JSON that is not declared as JSON, to a server without keys
  NotFound             no such path, or no such object
  FileNotFound         no such file, or a file of another owner
  UploadNotFound       no such upload, or an upload of another owner
  FileTooLarge         a file is over `files.max_file_mb`, or a part over `files.max_part_mb`
  VectorStoreNotFound  no such vector store, or one of another owner
  StoreFileNotFound    a vector store has no such file
  ContainerNotFound    no container has the id in which code should run
  FileBatchNotFound    a vector store has no such batch of files
  VectorStoreExpired   a vector store that is searched or added to has expired
  VectorStoreQuotaExceeded  an owner has `limits.vector_stores`, or a store `tools.file_search.max_files`
  StorageQuotaExceeded  the files of an owner are over `limits.files` or `limits.files_mb`
  FileStorageUnavailable  the folder of files is full, missing or read-only
  MethodNotAllowed     the path exists, the method does not
  HostRefused          a server without keys is not called by the name in `Host`
  OriginRefused        a page of another origin sent a request to a server without keys, or requested a WebSocket
  TooManyConnections   `websocket.max_connections` are open
  TooManyQueued        a WebSocket has too many turns waiting
  ThreadNotFound       a thread of the Messages API has no such message, or the message has failed
  RunInProgress        another run of an AG-UI thread has not ended
  IdempotencyKeyReused  the Idempotency-Key belongs to a request with another body
  IdempotencyKeyInUse  other requests with the same Idempotency-Key keep starting and failing
  TooManyRequests      an owner has `limits.open_requests` open
  TooManySockets       an owner has `limits.websockets` open
  TooManyJobs          an owner has `limits.background_jobs` queued or running
  TooManyKeys          an owner has `limits.idempotency_keys` stored
  EventLogFull         the event logs of an owner have `limits.event_log_mb`
  ShuttingDown         the server stops, and `server.drain_s` seconds are over
  StoreUnavailable     the database is down, full, read-only or too slow
  CredentialsNotStored  the replica that had the credentials of a background response is gone
  CompactionFailed     the model wrote no complete summary of the conversation
  ToolListFailed       an MCP server that the request needs does not list its tools
  StoredFailure        the response that a request repeats, or waited for, has failed
  TurnFailed           the upstream reported a failure within a reply of status 200, before any content
"""

from collections.abc import Mapping

from translation.representation.events import Failed
from translation.representation.json_types import Json


class GatewayError(Exception):
    """Root of the exceptions that the gateway itself raises.

    `message` is for the client, `param` names the request's parameter at fault, and `headers` are added to the reply.
    """

    limit = ""
    """The configuration key of the limit that refused the request; empty if none did."""

    def __init__(self, message: str, *, param: str | None = None, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.param = param
        self.headers = dict(headers or {})


class NotAuthenticated(GatewayError):
    """`hint` says in the log which key was sent, without the key."""

    def __init__(self, message: str, *, hint: str = "none", headers: Mapping[str, str] | None = None) -> None:
        super().__init__(message, headers=headers)
        self.hint = hint


class NotAdministrator(GatewayError):
    pass


class ServerNameTaken(GatewayError):
    pass


class UnknownModel(GatewayError):
    """`model` is the name that the client requested."""

    def __init__(self, model: str, hint: str) -> None:
        super().__init__(f"the model '{model:.200}' does not exist: {hint}", param="model")
        self.model = model


class NotJson(GatewayError):
    pass


class HeadMalformed(GatewayError):
    pass


class HeadTooLarge(GatewayError):
    pass


class TargetTooLong(GatewayError):
    pass


class HeadTooSlow(GatewayError):
    pass


class BodyTooLarge(GatewayError):
    pass


class BodyTooSlow(GatewayError):
    pass


class UnsupportedEncoding(GatewayError):
    pass


class UnsupportedContentType(GatewayError):
    pass


class NotFound(GatewayError):
    pass


class ThreadNotFound(NotFound):
    pass


class FileNotFound(NotFound):
    """One text for unknown, deleted and expired files, and for those of another owner."""

    def __init__(self, file_id: str, *, param: str | None = None) -> None:
        super().__init__(f"there is no file with the id '{file_id:.80}'", param=param)


class UploadNotFound(NotFound):
    def __init__(self, upload_id: str) -> None:
        super().__init__(f"there is no upload with the id '{upload_id:.80}'")


class FileTooLarge(GatewayError):
    pass


class StorageQuotaExceeded(GatewayError):
    """Unlike other limits of an owner it does not end by waiting, so clients are told not to repeat the request."""

    def __init__(self, message: str, *, limit: str) -> None:
        super().__init__(f"{message} ({limit})", headers={"x-should-retry": "false"})
        self.limit = limit


class VectorStoreNotFound(NotFound):
    """One text for unknown stores, and for those of another owner."""

    def __init__(self, store_id: str, *, param: str | None = None) -> None:
        super().__init__(f"Vector store with id {store_id:.80} not found.", param=param)


class ContainerNotFound(NotFound):
    """A container in which code should run."""

    def __init__(self, container_id: str, *, param: str | None = None) -> None:
        super().__init__(f"Container with id {container_id:.80} not found.", param=param)


class StoreFileNotFound(NotFound):
    """A file that is not in a vector store, whether it exists elsewhere or not."""

    def __init__(self, file_id: str) -> None:
        super().__init__(f"there is no file with the id '{file_id:.80}' in this vector store")


class FileBatchNotFound(NotFound):
    def __init__(self, batch_id: str) -> None:
        super().__init__(f"there is no batch with the id '{batch_id:.80}' in this vector store")


class VectorStoreExpired(GatewayError):
    def __init__(self, store_id: str, *, param: str | None = None) -> None:
        super().__init__(f"Vector store with id {store_id:.80} has expired: create another one.", param=param)


class VectorStoreQuotaExceeded(GatewayError):
    def __init__(self, message: str, *, limit: str) -> None:
        super().__init__(f"{message} ({limit})", headers={"x-should-retry": "false"})
        self.limit = limit


class FileStorageUnavailable(GatewayError):
    """`reason` is the error of the operating system or of the service, for the log."""

    def __init__(self, reason: str) -> None:
        super().__init__("the storage of files is unavailable: try again later", headers={"retry-after": "1"})
        self.reason = reason


class MethodNotAllowed(GatewayError):
    pass


class HostRefused(GatewayError):
    pass


class OriginRefused(GatewayError):
    pass


class TooManyConnections(GatewayError):
    limit = "websocket.max_connections"

    def __init__(self, message: str) -> None:
        super().__init__(message, headers={"retry-after": "1"})


class TooManyQueued(GatewayError):
    pass


class RunInProgress(GatewayError):
    def __init__(self) -> None:
        super().__init__(
            "a run of this thread is in progress: wait for its end", param="threadId", headers={"retry-after": "1"}
        )


class IdempotencyKeyReused(GatewayError):
    def __init__(self) -> None:
        super().__init__(
            "this Idempotency-Key was sent with another body: send a new key with each new request",
            param="Idempotency-Key",
        )


class IdempotencyKeyInUse(GatewayError):
    def __init__(self) -> None:
        super().__init__(
            "other requests with this Idempotency-Key begin at the same time: try again",
            param="Idempotency-Key",
            headers={"retry-after": "1"},
        )


class OwnerLimitReached(GatewayError):
    """The parent of the errors about limits for one owner."""

    def __init__(self, message: str) -> None:
        super().__init__(message, headers={"retry-after": "1"})


class TooManyRequests(OwnerLimitReached):
    limit = "limits.open_requests"

    def __init__(self, limit: int) -> None:
        super().__init__(f"this API key's owner has {limit} open requests: wait for one to end (limits.open_requests)")


class TooManySockets(OwnerLimitReached):
    limit = "limits.websockets"

    def __init__(self, limit: int) -> None:
        super().__init__(
            f"this API key's owner has {limit} open WebSockets: close one, or use HTTP (limits.websockets)"
        )


class TooManyKeys(OwnerLimitReached):
    limit = "limits.idempotency_keys"

    def __init__(self, limit: int) -> None:
        super().__init__(
            f"{limit} idempotency keys are stored for this owner: wait until some expire (store.idempotency_hours), or "
            "raise limits.idempotency_keys"
        )


class TooManyJobs(OwnerLimitReached):
    limit = "limits.background_jobs"

    def __init__(self, limit: int) -> None:
        super().__init__(f"{limit} responses are queued or running: wait for one to end (limits.background_jobs)")


class EventLogFull(OwnerLimitReached):
    limit = "limits.event_log_mb"

    def __init__(self, limit_mb: float) -> None:
        super().__init__(
            f"the streams that can be resumed have {limit_mb:g} MB: delete responses, or leave out 'resumable' and "
            "'background' with 'stream' (limits.event_log_mb)"
        )


class ShuttingDown(GatewayError):
    def __init__(self) -> None:
        super().__init__("the server is shutting down; send the request again", headers={"retry-after": "1"})


class StoreUnavailable(GatewayError):
    def __init__(self, message: str = "the store is unavailable: try again later, or send store: false") -> None:
        super().__init__(message, headers={"retry-after": "1"})


class CredentialsNotStored(GatewayError):
    def __init__(self) -> None:
        super().__init__(
            "the server that ran this response has stopped, and the credentials of its tools were not stored: send the "
            "request again. For another server to go on with such a response, the gateway's operator has to configure "
            "sealing.keys, the same on every server; credentials are then stored encrypted"
        )


class ToolListFailed(GatewayError):
    pass


class CompactionFailed(GatewayError):
    pass


class StoredFailure(GatewayError):
    """A stored response that has failed, as the error of a request that gets it instead of a run of its own.

    The reply to that request has these headers.
    """

    def __init__(self, response: Json, headers: Mapping[str, str]) -> None:
        error = response["error"]
        super().__init__(f"{error['message']} (response {response['id']})", param=error.get("param"))
        self.headers = dict(headers)
        self.code: str = error.get("type") or error["code"]
        """The code of the error table, which the stored error may have replaced by the nearest of the API."""


class TurnFailed(GatewayError):
    """A turn ended in the event `failed`, before any content was sent."""

    def __init__(self, failed: Failed) -> None:
        super().__init__(failed.message, param=failed.param)
        self.failed = failed
