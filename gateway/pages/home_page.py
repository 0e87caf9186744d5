"""What the server's home page shows: its status, models, clients and upstreams, and the last report of the doctor."""

import json
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

from gateway.pages.client_setups import ClientSetup, build_client_setups
from gateway.pages.saved_report import SavedCheck, SavedReport, SavedResult, Verdict

_MAX_MODELS: Final = 200
"""Models with examples on the page. A hosted service may list several hundred."""
KEY_VARIABLE: Final = "GATEWAY_KEY"
"""The environment variable that examples read the client's key from."""


@dataclass(frozen=True, slots=True)
class ListedModel:
    """One model that the reader may request, or a pattern of such models."""

    name: str
    providers: Sequence[str]
    """Who serves it, the first choice first."""


@dataclass(frozen=True, slots=True)
class UpstreamCondition:
    """What is known of one provider. `is_usable` is None if nobody has examined it."""

    name: str
    type: str
    is_usable: bool | None
    detail: str


@dataclass(frozen=True, slots=True)
class Note:
    """A fact beside the status, such as the state of an engine."""

    name: str
    text: str


ActivityAccess: TypeAlias = Literal["shown", "off", "hidden"]
"""Whether the reader may see what the server does. `off`: nobody counts it, because metrics are off."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HomePageFacts:
    """What the page is built from."""

    version: str
    status: str
    """The status of `/readyz`."""
    notes: Sequence[Note] = ()
    base_url: str
    """The address at which the reader reached the server, without a path. The page's script corrects it."""
    needs_key: bool
    """Whether the server has keys."""
    models: Sequence[ListedModel] | None
    """None if the reader has sent no key yet: then nothing is listed."""
    patterns: Sequence[ListedModel] = ()
    """Patterns of further names, which upstreams may serve without listing them."""
    upstreams: Sequence[UpstreamCondition] = ()
    tool_servers: Sequence[str] = ()
    """The labels of the operator's MCP servers that the reader may use."""
    activity: ActivityAccess = "hidden"
    report: SavedReport | None = None
    """The last results of the doctor for `models`."""
    report_problem: str = ""
    """The reason why there is no `report`, if the file exists."""
    config_digest: str = ""


@dataclass(frozen=True, slots=True)
class Example:
    """A program that requests a model. It contains the base URL of the page once, before anything else that may."""

    kind: str
    title: str
    text: str


@dataclass(frozen=True, slots=True)
class ModelEntry:
    """One model with examples."""

    name: str
    providers: Sequence[str]
    problem: str
    """Why no request to the model can succeed now, as far as it is known."""
    examples: Sequence[Example]


@dataclass(frozen=True, slots=True)
class VerdictCount:
    """The number of checks with one verdict."""

    verdict: Verdict
    meaning: str
    count: int


@dataclass(frozen=True, slots=True)
class FailureGroup:
    """The failed checks that one advice is for."""

    titles: Sequence[str]
    advice: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ResultCard:
    """The doctor's results for one model."""

    model: str
    summary: str
    """The result in plain words."""
    score: str
    counts: Sequence[VerdictCount]
    date: str
    product_version: str
    config_digest: str
    config_changed: bool
    failures: Sequence[FailureGroup]
    checks: Sequence[SavedCheck]


@dataclass(frozen=True, slots=True, kw_only=True)
class HomePage:
    """The read model of the page. Without a key that the server needs, `models` is None and nothing else is listed."""

    version: str
    status: str
    notes: Sequence[Note]
    base_url: str
    config_digest: str
    models: Sequence[ModelEntry] | None
    hidden_models: int
    """The number of models beyond those that are shown."""
    patterns: Sequence[ListedModel]
    needs_key: bool
    """Whether requests need a key."""
    upstreams: Sequence[UpstreamCondition]
    tool_servers: Sequence[str]
    activity: ActivityAccess
    clients: Sequence[ClientSetup]
    """How clients are pointed at the first model; empty without models."""
    results: Sequence[ResultCard]
    report_problem: str


def build_home_page(facts: HomePageFacts) -> HomePage:
    """Returns the read model of the page."""
    models = facts.models
    unusable = {each.name: each.detail for each in facts.upstreams if each.is_usable is False}
    if models is not None:
        # What cannot be used now is not the first thing that a reader tries.
        models = sorted(models, key=lambda model: _find_problem(model, unusable) != "")
    return HomePage(
        version=facts.version,
        status=facts.status,
        notes=facts.notes,
        base_url=facts.base_url,
        config_digest=facts.config_digest,
        models=None
        if models is None
        else [_build_model_entry(facts, model, _find_problem(model, unusable)) for model in models[:_MAX_MODELS]],
        hidden_models=max(0, len(models or ()) - _MAX_MODELS),
        patterns=facts.patterns,
        needs_key=facts.needs_key,
        upstreams=facts.upstreams,
        tool_servers=facts.tool_servers,
        activity=facts.activity,
        clients=build_client_setups(facts.base_url, models[0].name, KEY_VARIABLE if facts.needs_key else None)
        if models
        else (),
        results=[
            _build_result_card(result, facts.config_digest) for result in (facts.report.results if facts.report else ())
        ],
        report_problem=facts.report_problem,
    )


def _find_problem(model: ListedModel, unusable: Mapping[str, str]) -> str:
    """Returns why no provider of a model can be used; nothing if one may. `unusable`: provider -> the reason."""
    if not all(provider in unusable for provider in model.providers):
        return ""
    if len(model.providers) == 1:
        return unusable[model.providers[0]]
    return "; ".join(f"{provider}: {unusable[provider]}" for provider in model.providers)


def _build_model_entry(facts: HomePageFacts, model: ListedModel, problem: str) -> ModelEntry:
    examples = (
        Example("curl", "curl", render_curl(facts.base_url, model.name, needs_key=facts.needs_key)),
        Example(
            "python",
            "Python, package openai",
            render_python(facts.base_url, model.name, needs_key=facts.needs_key),
        ),
    )
    return ModelEntry(model.name, model.providers, problem, examples)


def _build_result_card(result: SavedResult, config_digest: str) -> ResultCard:
    titles_by_advice: dict[str, list[str]] = {}
    for check in result.checks:
        if check.verdict == "fail":
            titles_by_advice.setdefault(check.advice, []).append(check.title)
    passed, failed = result.count("pass"), result.count("fail")
    return ResultCard(
        model=result.model,
        summary=describe_result(result),
        score=f"{passed} of {passed + failed}",
        counts=[
            VerdictCount(verdict, meaning, count) for verdict, meaning in _COUNTED if (count := result.count(verdict))
        ],
        date=result.date,
        product_version=result.product_version,
        config_digest=result.config_digest,
        config_changed=bool(config_digest) and result.config_digest != config_digest,
        failures=[FailureGroup(titles, advice) for advice, titles in titles_by_advice.items()],
        checks=result.checks,
    )


def describe_result(result: SavedResult) -> str:
    """Returns what the doctor found out about a model, in a few plain sentences."""
    titles: dict[str, list[str]] = {}
    for check in result.checks:
        titles.setdefault(check.verdict, []).append(check.title)
    passed, failed, refused = (titles.get(verdict, []) for verdict in ("pass", "fail", "refused"))
    if not passed and not failed:
        sentences = ["Nothing could be examined."]
    elif not failed:
        sentences = [f"All {len(passed)} features that were tried work." if len(passed) > 1 else "It works."]
    else:
        does = "does not" if len(failed) == 1 else "do not"
        sentences = [f"{_count_features(len(passed))}. {_join_titles(failed)} {does}: below is what to do."]
    if refused:
        sentences.append(f"Its upstream cannot do this, and requests for it are refused: {_join_titles(refused)}.")
    if skipped := len(titles.get("skipped", [])):
        sentences.append(f"{skipped} could not be tried." if skipped > 1 else "One could not be tried.")
    return " ".join(sentences)


def _count_features(count: int) -> str:
    return "One feature works" if count == 1 else f"{count} features work"


def _join_titles(titles: Sequence[str]) -> str:
    quoted = [f"“{title}”" for title in titles]
    return quoted[0] if len(quoted) == 1 else f"{', '.join(quoted[:-1])} and {quoted[-1]}"


_COUNTED: Final[tuple[tuple[Verdict, str], ...]] = (
    ("pass", "passed"),
    ("fail", "failed"),
    ("refused", "refused"),
    ("skipped", "skipped"),
)


def render_curl(base_url: str, model: str, *, needs_key: bool) -> str:
    """Returns a shell command that requests a response. `base_url` is the server's address, without `/v1`."""
    key = f' \\\n  -H "Authorization: Bearer ${KEY_VARIABLE}"' if needs_key else ""
    body = json.dumps({"model": model, "input": "Say hello."}, ensure_ascii=False)
    return f"curl {base_url}/v1/responses{key} \\\n  -H 'Content-Type: application/json' \\\n  -d {shlex.quote(body)}"


def render_python(base_url: str, model: str, *, needs_key: bool) -> str:
    """Returns a Python program for the package `openai` that prints a response."""
    imports = "import os\n\nfrom openai import OpenAI" if needs_key else "from openai import OpenAI"
    key = f'os.environ["{KEY_VARIABLE}"]' if needs_key else '"none"'
    return (
        f'{imports}\n\nclient = OpenAI(base_url="{base_url}/v1", api_key={key})\n'
        f"response = client.responses.create(model={_quote_python(model)}, input={_quote_python('Say hello.')})\n"
        "print(response.output_text)"
    )


def _quote_python(text: str) -> str:
    # A JSON string is a Python string, too, except for escaped surrogate pairs, which this does not write.
    return json.dumps(text, ensure_ascii=False)
