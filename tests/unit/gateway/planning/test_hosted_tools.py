"""gateway/planning/hosted_tools.py: which tools the gateway runs, and which combinations are refused."""

from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from gateway.config.settings import EgressSettings
from gateway.config.tool_settings import McpSettings
from gateway.dialects.responses.endpoint import RESPONSES
from gateway.planning.plan import RelayPlan, TranslationPlan, find_tool_host
from gateway.tools.host import ToolHost
from gateway.tools.operator_servers.servers import OperatorServers
from providers.base import RelayedDialect
from providers.capabilities import CAPABILITIES
from providers.egress import EgressClient
from tests.unit.support.routing import Recorder, plan_body, resolver
from translation.errors import InvalidRequest, TranslationError, Unrepresentable
from translation.representation.loss import Loss
from translation.representation.profile import Profile
from translation.representation.turn import Turn

Json = dict[str, Any]

DOCS: Json = {
    "type": "mcp",
    "server_label": "docs",
    "server_url": "https://mcp.example.com/mcp",
    "require_approval": "never",
}


LISTED: Json = {
    "type": "mcp_list_tools",
    "id": "mcpl_1",
    "server_label": "docs",
    "tools": [{"name": "search", "description": "Searches.", "input_schema": {"type": "object"}}],
}

OWN: Json = {"type": "function", "name": "mine", "description": "Mine.", "parameters": {"type": "object"}}


@dataclass
class Lowering(Recorder):
    """Records all turns that it was to lower."""

    turns: list[Turn] = field(default_factory=list)

    def prepare(self, turn: Turn, profile: Profile) -> Recorder:
        self.turns.append(turn)
        return self


def plan(
    *dialects: RelayedDialect,
    runs_mcp: bool = False,
    can: Json | None = None,
    settings: Json | None = None,
    has_store: bool = False,
    provider: Recorder | None = None,
    model: Json | None = None,
    **params: Any,
) -> RelayPlan | TranslationPlan:
    hosted = frozenset({"mcp"}) if runs_mcp else frozenset[str]()
    known = CAPABILITIES["openai_compatible"]
    capabilities = replace(known, dialects=frozenset(dialects), hosted_tools=hosted, **(can or {}))
    provider = provider or Recorder("up")
    provider.capabilities = capabilities
    body: Json = {"model": "mine", "input": "Hi", **params}
    RESPONSES.request.validate(body)
    route = resolver({"mine": {"provider": "up", **(model or {})}}, provider).resolve("mine")
    mcp = McpSettings(**(settings or {}))
    servers = OperatorServers(mcp, EgressSettings())
    tool_host = ToolHost(mcp, EgressClient(), servers, has_store=has_store)
    found = find_tool_host(RESPONSES, RESPONSES.request.read_facts(body), route.target, tool_host)
    return plan_body(RESPONSES, body, route, tool_host=found)


def calls_tools(planned: RelayPlan | TranslationPlan) -> bool:
    return isinstance(planned, TranslationPlan) and planned.loop_io is not None


@pytest.mark.parametrize("dialect", ["chat", "responses"])
def test_an_upstream_that_runs_no_mcp_tools_gets_functions(dialect: RelayedDialect) -> None:
    planned = plan(dialect, tools=[DOCS], max_tool_calls=3)
    assert calls_tools(planned)
    assert planned.losses == []


async def test_a_round_whose_tools_are_known_is_lowered_once() -> None:
    provider = Lowering("up")
    planned = plan("chat", provider=provider, tools=[DOCS, OWN], input=[LISTED, {"role": "user", "content": "Hi"}])
    (turn,) = provider.turns
    assert [tool["name"] for tool in turn.tools] == ["mine", "docs_search"]
    assert isinstance(planned, TranslationPlan)
    assert planned.losses == []
    with pytest.raises(TranslationError, match="nothing is sent here"):
        await anext(planned.exchange.batches())
    assert provider.turns == [turn]


def test_tools_that_are_not_known_yet_are_lowered_when_the_server_has_listed_them() -> None:
    provider = Lowering("up")
    plan("chat", provider=provider, tools=[DOCS, OWN])
    (turn,) = provider.turns
    assert [tool["name"] for tool in turn.tools] == ["mine"]


@pytest.mark.parametrize("items", [[], [LISTED]], ids=["unknown", "known"])
def test_only_parameters_of_the_client_are_losses(items: list[Json]) -> None:
    planned = plan(
        "chat",
        model={"schema_shims": ["no_descriptions"]},
        tools=[OWN, DOCS],
        input=[*items, {"role": "user", "content": "Hi"}],
    )
    assert planned.losses == [Loss("tools[0].description", "dropped")]


def test_an_upstream_that_runs_them_gets_the_tool_as_it_is() -> None:
    assert isinstance(plan("responses", runs_mcp=True, tools=[DOCS]), RelayPlan)


def test_an_upstream_that_runs_them_on_relayed_requests_gets_those() -> None:
    can = {"relayed_tools": frozenset({"mcp"})}
    assert isinstance(plan("chat", "responses", can=can, tools=[DOCS]), RelayPlan)
    assert calls_tools(plan("chat", "responses", can=can, tools=[DOCS], reasoning={"max_tokens": 100}))


def test_a_server_of_the_configuration_is_used_here_whatever_its_upstream_runs() -> None:
    """The upstream does not know it. It gets the tools that have an address beside the functions."""
    settings = {"servers": {"own": {"url": "http://10.0.0.7/mcp"}}}
    own = {"type": "mcp", "server_label": "own"}
    for tools in ([own], [DOCS, own]):
        assert calls_tools(plan("responses", runs_mcp=True, tools=tools, settings=settings))
    assert isinstance(plan("responses", runs_mcp=True, tools=[DOCS], settings=settings), RelayPlan)


LEFT_OUT: dict[str, tuple[Json, Json]] = {
    "calls need an approval": ({**DOCS, "require_approval": "always"}, {}),
    "some calls need an approval": ({**DOCS, "require_approval": {"never": {"tool_names": ["add"]}}}, {}),
    "the default, which is an approval": ({name: DOCS[name] for name in DOCS if name != "require_approval"}, {}),
    "the operator runs none": (DOCS, {"request_servers": "off"}),
}


@pytest.mark.parametrize(("tool", "settings"), LEFT_OUT.values(), ids=LEFT_OUT)
def test_tools_that_are_not_run_are_left_out_and_reported(tool: Json, settings: Json) -> None:
    planned = plan("chat", tools=[tool], settings=settings)
    assert not calls_tools(planned)
    assert planned.losses == [Loss("tools[0]", "mcp left out")]


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"allowed_callers": ["programmatic"]}, "tools[0].allowed_callers"),
    ],
)
def test_unsupported_options_of_hosted_tools_are_reported(fields: Json, param: str) -> None:
    planned = plan("chat", tools=[{**DOCS, **fields}])
    assert calls_tools(planned)
    assert planned.losses == [Loss(param, "dropped")]


@pytest.mark.parametrize("key", ["connector_id", "tunnel_id"])
def test_connectors_and_tunnels_are_refused_by_name_unless_the_upstream_has_them(key: str) -> None:
    tool = {"type": "mcp", "server_label": "docs", key: "connector_gmail"}
    with pytest.raises(InvalidRequest, match="send the `server_url`") as refused:
        plan("chat", tools=[tool])
    assert refused.value.param == f"tools[0].{key}"
    assert isinstance(plan("responses", runs_mcp=True, tools=[tool]), RelayPlan)


@pytest.mark.parametrize("policy", [None, "always", {"never": {"tool_names": ["add"]}}])
def test_tools_whose_calls_may_need_an_approval_are_run_where_it_can_be_stored(policy: Any) -> None:
    planned = plan("chat", tools=[{**DOCS, "require_approval": policy}], has_store=True)
    assert calls_tools(planned)
    assert planned.losses == []


REFUSED: dict[str, tuple[Json, str, str]] = {
    "a label without an address that the configuration does not have": (
        {"tools": [{name: DOCS[name] for name in DOCS if name != "server_url"}]},
        "tools[0].server_label",
        "unknown_server_label",
    ),
    "one label twice": ({"tools": [DOCS, DOCS]}, "tools[1].server_label", "duplicate_server_label"),
    "too many servers": (
        {"tools": [{**DOCS, "server_label": f"s{number}"} for number in range(17)]},
        "tools[16]",
        "too_many_servers",
    ),
    "two tokens": (
        {"tools": [{**DOCS, "authorization": "a", "headers": {"Authorization": "Bearer b"}}]},
        "tools[0].authorization",
        "invalid_value",
    ),
    "an address and a connector": (
        {"tools": [{**DOCS, "connector_id": "connector_gmail"}]},
        "tools[0].connector_id",
        "invalid_value",
    ),
    "compaction at an unknown length": (
        {"tools": [DOCS], "context_management": [{"type": "compaction"}]},
        "context_management[0].compact_threshold",
        "unsupported_parameter",
    ),
    "compaction of nothing": (
        {"tools": [DOCS], "input": [{"type": "compaction_trigger"}]},
        "input",
        "invalid_value",
    ),
}


@pytest.mark.parametrize(("params", "param", "code"), REFUSED.values(), ids=REFUSED)
def test_invalid_combinations_are_refused_by_name(params: Json, param: str, code: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        plan("chat", **params)
    assert (refused.value.param, refused.value.code) == (param, code)


def test_a_compaction_without_token_counts_is_refused() -> None:
    managed = [{"type": "compaction", "compact_threshold": 1000}]
    assert calls_tools(plan("chat", tools=[DOCS], context_management=managed))
    with pytest.raises(Unrepresentable, match="cannot count tokens") as refused:
        plan("chat", can={"counting": "none"}, tools=[DOCS], context_management=managed)
    assert refused.value.param == "context_management"


def test_a_model_without_tools_is_not_given_any() -> None:
    with pytest.raises(Unrepresentable) as refused:
        plan("chat", can={"tools": False}, tools=[DOCS])
    assert refused.value.param == "tools"


@pytest.mark.parametrize(
    "choice",
    [
        "auto",
        "required",
        {"type": "mcp", "server_label": "docs"},
        {"type": "allowed_tools", "mode": "auto", "tools": [{"type": "mcp", "server_label": "docs"}]},
    ],
)
def test_a_choice_of_hosted_tools_waits_for_their_list(choice: Any) -> None:
    planned = plan("chat", tools=[DOCS], tool_choice=choice, truncation="auto")
    assert calls_tools(planned)
    assert planned.losses == []
