"""Prepares a turn for its upstream: refuses or drops parts that it cannot take, and rewrites tools of other kinds."""

from collections.abc import AsyncGenerator, Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Final

from dataplane.staged_source import StagedDeltaRun, StagedSource
from gateway.planning.admitted_request import AdmittedRequest
from gateway.planning.capability_check import apply_capabilities, require_continuable
from gateway.planning.empty_answers import RetriedExchange, ask_for_answer
from gateway.planning.resolver import Target
from gateway.planning.stop_sequences import StoppedExchange, remove_stop, require_short_sequences, sends_stop
from gateway.replies.client_params import ClientParams
from gateway.replies.endpoints import Endpoint
from gateway.tools.past_results import PastResultCiter, show_past_calls
from providers.base import Batch, Exchange, as_batch_source
from providers.new_id import new_id
from translation.errors import InvalidRequest
from translation.hygiene.outputs import truncate_outputs
from translation.hygiene.past_calls import with_unique_call_ids
from translation.hygiene.reply import ReplyNormalizer
from translation.hygiene.schema_shims import apply_schema_shims, shim_format
from translation.hygiene.volatile_lines import move_volatile_lines_of_turn, remove_lines_of_turn
from translation.lowering.input_files import FileContent, FilesNeeded, count_file_ids, find_file_ids, put_files_in
from translation.representation.delta_runs import DeltaRun, EventStage
from translation.representation.json_types import Json
from translation.representation.loss import Loss
from translation.representation.profile import Profile
from translation.representation.turn import Turn
from translation.tools.searches import is_search_tool
from translation.tools.tool_rewriting import is_tool_free, rewrite_tools


def lift_request(request: AdmittedRequest, *, native_compaction: bool = False) -> tuple[Turn, ClientParams]:
    """Lifts a request to the turn for the upstream's model, and returns it with the client's parameter names.

    `native_compaction` means that the upstream has compaction items of its own. Raises InvalidRequest.
    """
    endpoint, body, target = request.endpoint, request.body, request.target
    history_count = request.history_count or 0
    turn = endpoint.request.lift(body, model=target.upstream_model)
    tools = request.facts.tools
    turn.credentials = tools.credentials
    if tools.servers:
        turn.tools = [*turn.tools, *tools.servers]
    params = ClientParams(endpoint.param_names, body, turn, history_count)
    reply = endpoint.reply
    if reply.carries_seals:
        if target.reasoning_seal is not None:
            turn = target.reasoning_seal.remove_foreign_content(turn)
        if target.capabilities.sealed_reasoning and turn.thinking:
            turn = replace(turn, sealed_reasoning=True)  # its client sends encrypted content back
    if reply.shows_search_results and target.capabilities.search_sources and any(map(is_search_tool, turn.tools)):
        turn = replace(turn, search_sources=True)  # a result of a search without its pages is worth little
    if endpoint.context is not None:
        try:
            windowed_turn = endpoint.context.apply_compaction(turn, native=native_compaction)
        except InvalidRequest as error:
            params.rename_param_of(error)
            raise
        if windowed_turn is not turn:
            turn, params = windowed_turn, ClientParams(endpoint.param_names, body, windowed_turn, history_count)
    # Last, because a compacted context names files too.
    return (turn if request.files is None else _put_files_in(turn, request.files, target, params)), params


def names_file(endpoint: Endpoint, body: Json, turn: Turn) -> bool:
    """Whether a body that may be relayed, or its turn, names a file by its id."""
    is_named = endpoint.request.names_file
    return bool(find_file_ids(turn.items)) if is_named is None else is_named(body)


def find_needed_files(turn: Turn, params: ClientParams) -> dict[str, str]:
    """Returns the ids of the files that a turn names, each with the client's parameter."""
    return {file_id: params.find_client_name(param) or param for file_id, param in find_file_ids(turn.items).items()}


def _put_files_in(turn: Turn, contents: Mapping[str, FileContent], target: Target, params: ClientParams) -> Turn:
    """Returns the turn with the contents of the files that it names. Raises FilesNeeded if they are not loaded."""
    needed = find_needed_files(turn, params)
    if not needed:
        return turn
    if not needed.keys() <= contents.keys():
        raise FilesNeeded(needed, count_file_ids(turn.items))
    try:
        return put_files_in(turn, contents, takes_files=target.capabilities.files)
    except InvalidRequest as error:
        params.rename_param_of(error)
        raise


def unseal_turn(turn: Turn, target: Target) -> Turn:
    """Returns a turn whose items have the unsealed reasoning that the upstream needs back.

    Raises StoreUnavailable if the key cannot be loaded.
    """
    return turn if target.reasoning_seal is None else target.reasoning_seal.unseal_turn(turn)


def prepare_turn(turn: Turn, target: Target, endpoint: Endpoint, losses: list[Loss]) -> tuple[Turn, EventStage | None]:
    """Returns the turn in a form that its upstream supports, and the mapper of the reply's calls to the client's tools.

    `endpoint` is the client's. Losses are appended to `losses`. Raises InvalidRequest and StoreUnavailable. Parameters
    in errors and losses have the turn's names, not the client's: see `ClientParams`.
    """
    profile = target.profile
    require_continuable(turn, profile, endpoint)
    seal = target.reasoning_seal
    unsealed = turn if seal is None else seal.unseal_turn(turn)
    fitted, _ = apply_capabilities(unsealed, target.capabilities, endpoint, losses, relayed=False)
    if fitted.sampling and (stop := fitted.sampling.get("stop")) and not sends_stop(target):
        require_short_sequences(stop, target)
        fitted = remove_stop(fitted)
    if profile.removed_lines:
        fitted = remove_lines_of_turn(fitted, profile.removed_lines)
    if profile.volatile_lines:
        fitted = move_volatile_lines_of_turn(fitted, profile.volatile_lines)
    if fitted.text_format is not None and profile.schema_shims:
        param = f"{endpoint.param_names.text_format}.schema"
        text_format = shim_format(fitted.text_format, profile.schema_shims, param, losses)
        fitted = replace(fitted, text_format=text_format)
    if is_tool_free(fitted):
        # Most turns have no tools. Skipping the next steps for them saves a tenth of the planning time.
        return fitted, _build_event_stage(fitted, profile, None) if profile.fix_empty_final else None
    can = target.capabilities
    expanded, citations = show_past_calls(fitted, can)
    rewritten = rewrite_tools(
        expanded,
        kinds=can.tool_kinds,
        hosted=can.hosted_tools,
        holds_grammars=can.input_grammars,
        name_form=profile.tool_names,
    )
    losses += rewritten.losses
    normalized = normalize_turn(rewritten.turn, profile, losses)
    event_stage = _build_event_stage(normalized, profile, rewritten.call_mapper)
    return normalized, PastResultCiter(citations, event_stage) if citations else event_stage


def _build_event_stage(turn: Turn, profile: Profile, call_mapper: EventStage | None) -> EventStage | None:
    if turn.tools or profile.fix_empty_final:
        return ReplyNormalizer(turn, profile, new_id, call_mapper)
    return call_mapper


def prepare_exchange(turn: Turn, target: Target, endpoint: Endpoint) -> tuple[Exchange, EventStage | None, list[Loss]]:
    """Returns the exchange for a turn, the mapper of its calls to the client's tools, and the losses. Sends nothing.

    Raises what `prepare_turn` raises.
    """
    losses: list[Loss] = []
    prepared, event_stage = prepare_turn(turn, target, endpoint, losses)
    profile = target.profile
    if profile.cite_documents and not endpoint.reply.cites_files:
        profile = replace(profile, cite_documents=False)
    exchange = target.provider.prepare(prepared, profile)
    if profile.fix_empty_final == "retry":
        exchange = RetriedExchange(exchange, lambda: target.provider.prepare(ask_for_answer(prepared), profile))
    if prepared is not turn and (stop := turn.sampling.get("stop")) and not prepared.sampling.get("stop"):
        exchange = StoppedExchange(exchange, stop)
    losses += exchange.losses
    return exchange, event_stage, losses


def make_exchange_factory(target: Target, endpoint: Endpoint) -> Callable[[Turn], Exchange]:
    """Returns a function that prepares exchanges for turns, with events in the terms of the client's endpoint."""

    return lambda turn: prepare_mapped_exchange(turn, target, endpoint)[0]


def prepare_mapped_exchange(turn: Turn, target: Target, endpoint: Endpoint) -> tuple[Exchange, list[Loss]]:
    """Returns the exchange for a turn with its events in the client's terms, and the losses. Sends nothing.

    Raises what `prepare_turn` raises.
    """
    exchange, event_stage, losses = prepare_exchange(turn, target, endpoint)
    return exchange if event_stage is None else MappedExchange(exchange, event_stage), losses


class MappedExchange(StagedSource):
    """An exchange whose events are in the client's terms: calls name the client's own tools."""

    def __init__(self, exchange: Exchange, event_stage: EventStage) -> None:
        # A bound method of this object would be a reference cycle, which only the garbage collector ends.
        super().__init__(as_batch_source(exchange), event_stage.feed, partial(_grant_delta_run, event_stage))
        self.losses: Final = exchange.losses

    def batches(self) -> AsyncGenerator[Batch, None]:
        return self.iterate()


def _grant_delta_run(event_stage: EventStage, run: DeltaRun) -> DeltaRun | None:
    """Returns the run with the observers of the stage; None if its deltas have to be fed to the stage."""
    observers = event_stage.delta_observers(run.text_key)
    return None if observers is None else StagedDeltaRun(run, run.text_key, observers)


def normalize_turn(turn: Turn, profile: Profile, losses: list[Loss]) -> Turn:
    """Returns the turn with unique ids of past calls, and with outputs, tools and `parallel_tool_calls` per the
    profile.

    Returns `turn` itself if nothing changes. Raises InvalidRequest, which names the id, for a call without an output or
    an output without a call.
    """
    items = truncate_outputs(with_unique_call_ids(turn.items, turn.call_pairs), profile.max_tool_output_bytes, losses)
    tools = apply_schema_shims(turn.tools, profile.schema_shims, losses)
    parallel = turn.parallel_tool_calls
    if parallel is None and tools:
        parallel = profile.parallel_tool_calls
    if items is turn.items and tools is turn.tools and parallel is turn.parallel_tool_calls:
        return turn
    return replace(turn, items=items, tools=tools, parallel_tool_calls=parallel)
