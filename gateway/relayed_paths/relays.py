"""Serves the relayed paths: their table, and the relay of a body to the model's upstream and of the reply back."""

import asyncio
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import Any, Final, NamedTuple, Protocol, TypeVar

import orjson
from starlette.responses import Response
from starlette.types import Receive, Scope

from dataplane.sharing.work_pool import run_in_pool
from gateway.errors import GatewayError
from gateway.http.auth import Principal
from gateway.http.guard import DrainState, guard_client
from gateway.http.headers import build_upstream_headers, encode_headers, headers_of
from gateway.logs import MAX_LOGGED_CHARS, bind_fields
from gateway.relayed_paths.byte_reply import EVENT_STREAM, AttemptWatchers, ByteReply, EndReply
from gateway.relayed_paths.form_upload import FormLimits, FormUpload
from gateway.relayed_paths.reply_usage import read_reply_usage
from gateway.replies.observers import LOG_OBSERVER, NO_REPLY, Observer, ReplyEnd, RequestObserver
from gateway.upstreams.shared_turn import SharedTurn
from providers.base import Provider
from providers.errors import ProviderError, UpstreamBroken, UpstreamGarbled, UpstreamRejected, UpstreamUnreachable
from providers.relayed_paths import URL_PATHS, PathRelayer, RelayedPathName, ReplyBytes
from translation.errors import TranslationError, Unrepresentable
from translation.representation.json_types import Json
from translation.validation import require_name

_EXAMINED_BYTES = 64 * 1024
"""The bytes of a JSON reply that are read before it is sent. Errors are shorter, and so are most replies."""

_HELD_BYTES = 4 * 1024 * 1024
"""The same for a reply that another upstream may send instead until something of it was sent."""


_ResultT = TypeVar("_ResultT")


_FIRST_EVENT: Final = re.compile(rb"^data:[ ]?([^\r\n]+)\r?\n", re.MULTILINE)

_ERROR_BYTES: Final = 64
"""The bytes of an event within which an error has its name."""


class RelayedPath(NamedTuple):
    """One path: the form of its requests and replies."""

    name: RelayedPathName
    tag: str
    summary: str
    takes_form: bool = False
    """Whether the body is a multipart form. Otherwise it is one JSON object. Both name the model in `model`."""
    replies_json: bool = True
    """Whether a reply that is not an event stream is JSON. Otherwise it is audio, or text."""

    @property
    def path(self) -> str:
        return URL_PATHS[self.name]


EMBEDDINGS: Final = RelayedPath("embeddings", "Embeddings", "Create embeddings of texts.")

RELAYED_PATHS: Final = (
    EMBEDDINGS,
    RelayedPath("completions", "Completions", "Complete a prompt, as JSON or as a stream with `stream: true`."),
    RelayedPath("rerank", "Rerank", "Sort documents by their relevance to a query."),
    RelayedPath("moderations", "Moderations", "Classify texts and images that may be harmful."),
    RelayedPath("speech", "Audio", "Speak a text: audio, or a stream of events.", replies_json=False),
    RelayedPath("transcriptions", "Audio", "Write down what is said in a file.", takes_form=True, replies_json=False),
    RelayedPath("translations", "Audio", "Translate what is said in a file.", takes_form=True, replies_json=False),
    RelayedPath("image_generations", "Images", "Create images from a prompt."),
    RelayedPath("image_edits", "Images", "Edit images by a prompt.", takes_form=True),
    RelayedPath("image_variations", "Images", "Create variations of an image.", takes_form=True),
    RelayedPath("tokenize", "Tokens", "Split a text into tokens, as the model's upstream does."),
    RelayedPath("detokenize", "Tokens", "Join tokens to a text, as the model's upstream does."),
)


class PathTarget(NamedTuple):
    """What serves requests for one model at the paths that it has."""

    model: str
    provider: Provider
    upstream_model: str
    endpoints: frozenset[str]
    """The names of the paths that its upstream has."""
    require_listed: Callable[[], Awaitable[None]]
    """Raises UnknownModel if the upstream has to list the model, and does not."""
    place: int = 0
    """The index of its candidate, if turns are shared."""


class PathRoute(NamedTuple):
    """What serves requests for one model: one target, or several that share its turns."""

    pattern: str
    """The name or pattern of the configuration that the model belongs to."""
    targets: Sequence[PathTarget]
    turn: SharedTurn | None


class _Relay(NamedTuple):
    """A target whose provider relays paths, and whose upstream has the requested one."""

    target: PathTarget
    relayer: PathRelayer
    """The provider of the target."""


class _RelayRoute(NamedTuple):
    """What may serve one request: at least one target, and the turn that chooses one of several."""

    relays: Sequence[_Relay]
    turn: SharedTurn | None
    observer: RequestObserver

    def find_relay(self, index: int) -> _Relay:
        """Returns the relay to the target of a candidate."""
        return next(each for each in self.relays if each.target.place == index)


class PathTargets(Protocol):
    """Finds what serves a model."""

    def find_path_route(
        self, name: str, allowed: Sequence[str], headers: Mapping[bytes, bytes], owner: str
    ) -> PathRoute:
        """Returns the targets, and the turn of a request by its headers and owner. Raises UnknownModel."""
        ...


class RelayedPaths:
    """Relays requests of every row. There is one per configuration.

    Each request keeps `hold` alive until its reply has ended.
    """

    def __init__(
        self,
        models: PathTargets,
        drain: DrainState,
        hold: object,
        observer: Observer = LOG_OBSERVER,
        *,
        names_upstream: bool = False,
    ) -> None:
        """`names_upstream` says whether replies have the headers about their upstream."""
        self._observer = observer
        self._names_upstream = names_upstream
        self._models = models
        self._drain = drain
        self._hold = hold

    async def relay_json(
        self, row: RelayedPath, principal: Principal, body: Json, scope: Scope, receive: Receive
    ) -> Response:
        """Returns the reply to a JSON body, as bytes.

        Raises InvalidRequest, UnknownModel, Unrepresentable, ProviderError, ClientDisconnected and ShuttingDown.
        """
        streams = _requests_stream(body)
        route = await self._find_route(row, principal, body.get("model"), scope, streams=streams)

        async def relay(target: PathTarget, relayer: PathRelayer) -> Response:
            sent = {**body, "model": target.upstream_model}
            reply = await relayer.relay_path(row.name, sent, streams=streams)
            return await self._build_reply(row, target, reply, route)

        with guard_client(scope, receive, self._drain):
            return await _ask_targets(route, relay)

    async def fetch_json(
        self, row: RelayedPath, principal: Principal, body: Json, scope: Scope, receive: Receive
    ) -> Json:
        """Returns the whole reply to a JSON body as an object, for paths of other APIs that translate it.

        Raises what `relay_json` raises.
        """
        route = await self._find_route(row, principal, body.get("model"), scope)

        async def fetch(target: PathTarget, relayer: PathRelayer) -> Json:
            sent = {**body, "model": target.upstream_model}
            reply = await relayer.relay_path(row.name, sent, streams=False)
            is_whole = False
            try:
                whole = await reply.read_whole()
                _check_length(reply, whole, target, is_whole=True)
                parsed = await _run_for_size(whole, partial(_parse, whole, target))
                is_whole = True
            finally:
                await reply.close(whole=is_whole)
            if not isinstance(parsed, dict):
                raise _build_garbled_error(target, "is not a JSON object")
            return parsed

        with guard_client(scope, receive, self._drain):
            parsed = await _ask_targets(route, fetch)
        route.observer.observe_end(ReplyEnd(read_reply_usage(parsed.get("usage"))))
        if (end := _end_of(route.turn)) is not None:
            end(is_complete=True, has_failed=False)
        return parsed

    async def relay_form(
        self,
        row: RelayedPath,
        principal: Principal,
        model: str | None,
        limits: FormLimits,
        scope: Scope,
        receive: Receive,
    ) -> Response:
        """Returns the reply to a form, as bytes. `model` is the model in the URL. The form is forwarded as it arrives.

        Raises what `relay_json` and FormUpload raise.
        """
        upload = FormUpload(scope, receive, limits, model)
        try:
            with guard_client(scope, receive, self._drain):
                route = await self._find_route(row, principal, await upload.read_model(), scope)

                async def relay(target: PathTarget, relayer: PathRelayer) -> Response:
                    form = upload.forward(target.upstream_model)
                    reply = await relayer.relay_path(row.name, form, streams=False)
                    return await self._build_reply(row, target, reply, route)

                def may_repeat(error: ProviderError) -> bool:
                    is_unreachable = isinstance(error, UpstreamUnreachable) and not error.was_sent
                    return is_unreachable and not upload.is_forwarded

                return await _ask_targets(route, relay, may_repeat)
        except (GatewayError, ProviderError, TranslationError):
            await upload.discard()
            raise

    async def _find_route(
        self, row: RelayedPath, principal: Principal, model: object, scope: Scope, *, streams: bool = False
    ) -> _RelayRoute:
        """Returns the targets that have the path, and the observer of the request. Raises what `relay_json` raises."""
        name = require_name("model", model)
        route = self._models.find_path_route(name, principal.models, headers_of(scope), principal.owner)
        first = route.targets[0]
        bind_fields(model=first.model[:MAX_LOGGED_CHARS], provider=first.provider.name)
        having_path = [each for each in route.targets if row.name in each.endpoints]
        if route.turn is not None:  # without those of weight 0
            places = {candidate.index for candidate in route.turn.candidates}
            having_path = [each for each in having_path if each.place in places]
        usable = [_Relay(each, each.provider) for each in having_path if isinstance(each.provider, PathRelayer)]
        if not usable:
            raise Unrepresentable(
                f"the upstream of the model '{first.model:.200}' has no {row.path}: use a model whose upstream has "
                f"it. If this one has it, the operator can add `{row.name}` to its `capabilities.endpoints`",
                param="model",
            )
        await first.require_listed()
        turn = route.turn
        observer = self._observer.observe_request(row.name, route.pattern, streams=streams, is_shared=turn is not None)
        if turn is not None:
            turn.keep_only([each.target.place for each in usable])
            turn.report_result = observer.observe_result
        return _RelayRoute(usable, turn, observer)

    async def _build_reply(
        self, row: RelayedPath, target: PathTarget, reply: ReplyBytes, route: _RelayRoute
    ) -> Response:
        """Examines the beginning of a reply. Raises ProviderError for a reply that this path cannot have."""
        try:
            reads = reply.iterate_reads()
            is_json = reply.content_type.endswith("json") or (row.replies_json and not reply.content_type)
            head = b""
            may_repeat = route.turn is not None and route.turn.repeats
            if is_json:
                head, is_whole = await _read_head(reads, _HELD_BYTES if may_repeat else _EXAMINED_BYTES)
                await _run_for_size(head, partial(_check_json, head, target, is_whole=is_whole))
                _check_length(reply, head, target, is_whole=is_whole)
            elif reply.content_type == "text/html" or (row.replies_json and reply.content_type != EVENT_STREAM):
                raise _build_garbled_error(target, f"is of the type {reply.content_type:.100}")
            turn = route.turn
            if may_repeat and turn is not None and reply.content_type == EVENT_STREAM:
                try:
                    async with asyncio.timeout(turn.routing.first_content_s):
                        head = await _read_first_event(reads, target)
                except TimeoutError:
                    raise turn.build_timeout() from None
            if turn is not None and turn.deadline is not None:
                reads = turn.bound_reads(reads)
            end = AttemptWatchers(route.observer, _end_of(turn))
            answer = ByteReply(reply, head, reads, self._drain, self._hold, end, is_json=is_json)
            if self._names_upstream:
                upstream = target.provider.name if turn is None else turn.upstream
                attempts = 1 if turn is None else turn.attempt_count
                answer.raw_headers += encode_headers(build_upstream_headers(upstream, attempts))
            return answer
        except BaseException:
            await reply.close()
            raise


async def _ask_targets(
    route: _RelayRoute,
    ask: Callable[[PathTarget, PathRelayer], Awaitable[_ResultT]],
    may_repeat: Callable[[ProviderError], bool] | None = None,
) -> _ResultT:
    """Returns what the first target replies that does not fail. `may_repeat` returns whether another one may be asked.

    Raises what `ask` raises, and ProviderError if no upstream can be asked.
    """
    turn, observer = route.turn, route.observer
    if turn is None:
        target, relayer = route.relays[0]
        observer.observe_attempt(target.provider.name, 1, target.upstream_model)
        try:
            return await ask(target, relayer)
        except BaseException:
            observer.observe_end(NO_REPLY)
            raise
    while True:
        try:
            candidate = await turn.begin()
        except ProviderError:
            bind_fields(**turn.describe())  # the turn may have waited, and a limit may have refused it
            raise
        target, relayer = route.find_relay(candidate.index)
        observer.observe_attempt(candidate.upstream, turn.attempt_count, target.upstream_model)
        try:
            async with turn.bound_attempt():
                return await ask(target, relayer)
        except (ProviderError, Unrepresentable) as raised:
            observer.observe_end(NO_REPLY)
            # An upstream without the path is refused as such, which says nothing of its models.
            error = raised.__cause__ if isinstance(raised, Unrepresentable) else raised
            if not isinstance(error, ProviderError):
                turn.leave()
                raise
            moves = False
            if may_repeat is None or may_repeat(error):
                moves = await turn.move_on(error, judges=error is raised)
            else:
                turn.fail(error, judges=error is raised)
            bind_fields(**turn.describe())
            if not moves:
                failure = turn.find_failure(error)
                raise raised if failure is error else failure from failure.__cause__
        except BaseException:
            observer.observe_end(NO_REPLY)
            turn.leave()
            raise


def _end_of(turn: SharedTurn | None) -> EndReply | None:
    """Returns the function that ends the attempt of a turn together with its reply."""
    if turn is None:
        return None

    def end(*, is_complete: bool, has_failed: bool) -> None:
        if has_failed:
            turn.cut()
        elif is_complete:
            turn.succeed()
        else:
            turn.leave()
        bind_fields(**turn.describe())

    return end


async def _run_for_size(body: bytes, work: Callable[[], _ResultT]) -> _ResultT:
    """Returns what `work` returns, which it does in a thread if the body is long."""
    return await run_in_pool(work) if len(body) > _EXAMINED_BYTES else work()


async def _read_head(reads: AsyncIterator[bytes], most_bytes: int) -> tuple[bytes, bool]:
    """Returns the beginning of a body, and whether the body is complete."""
    head = bytearray()
    async for read in reads:
        head += read
        if len(head) > most_bytes:
            return bytes(head), False
    return bytes(head), True


async def _read_first_event(reads: AsyncIterator[bytes], target: PathTarget) -> bytes:
    """Returns the beginning of an event stream up to its first event: until then another upstream may be asked.

    Raises UpstreamBroken if there is none, and UpstreamRejected if it is an error.
    """
    head, line_start = bytearray(), 0
    async for read in reads:
        head += read
        event = _FIRST_EVENT.search(head, line_start)
        line_start = head.rfind(b"\n") + 1
        if event is not None and event[1].startswith(b"{") and b'"error"' in event[1][:_ERROR_BYTES]:
            _check_event(bytes(event[1]), target)
        if event is not None or len(head) > _EXAMINED_BYTES:
            return bytes(head)
    raise UpstreamBroken("the upstream ended its stream before an event", provider=target.provider.name)


def _check_event(payload: bytes, target: PathTarget) -> None:
    """Raises UpstreamRejected for an error. What is no JSON may be an event of the path all the same."""
    try:
        orjson.loads(payload)
    except orjson.JSONDecodeError:
        return
    _parse(payload, target)


def _check_json(head: bytes, target: PathTarget, *, is_whole: bool) -> None:
    """Raises UpstreamGarbled for invalid JSON, and UpstreamRejected for an error with a success status."""
    if not is_whole:
        if head.lstrip()[:1] not in (b"{", b"["):
            raise _build_garbled_error(target, "is not JSON")
        return
    _parse(head, target)


def _parse(whole: bytes, target: PathTarget) -> Any:
    """Returns a whole body as JSON. Raises what `_check_json` raises."""
    try:
        parsed = orjson.loads(whole)
    except orjson.JSONDecodeError:
        raise _build_garbled_error(target, "is not JSON") from None
    error = parsed.get("error") if isinstance(parsed, Mapping) else None
    if error:
        message = error.get("message") if isinstance(error, Mapping) else error
        text = target.provider.redact(str(message or "the upstream replied with an error"))
        raise UpstreamRejected(text, provider=target.provider.name, status=502)
    return parsed


def _check_length(reply: ReplyBytes, head: bytes, target: PathTarget, *, is_whole: bool) -> None:
    if is_whole and reply.content_length not in (None, len(head)):
        raise UpstreamBroken("the upstream broke off its reply", provider=target.provider.name)


def _build_garbled_error(target: PathTarget, what: str) -> UpstreamGarbled:
    return UpstreamGarbled(f"the upstream's reply {what}", provider=target.provider.name)


def _requests_stream(body: Json) -> bool:
    return body.get("stream") is True or body.get("stream_format") == "sse"
