"""What the server's home page shows: its status, its models with examples, and the last report of the doctor."""

import json
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from gateway.pages.saved_report import SavedCheck, SavedReport, SavedResult, Verdict

_MAX_MODELS: Final = 200
"""Models with examples on the page. A hosted service may list several hundred."""
KEY_VARIABLE: Final = "GATEWAY_KEY"
"""The environment variable that examples read the client's key from."""


@dataclass(frozen=True, slots=True)
class ListedModel:
    """One model that the reader may request, or a pattern of such models."""

    name: str
    provider: str


@dataclass(frozen=True, slots=True)
class Note:
    """A fact beside the status, such as the state of an engine."""

    name: str
    text: str


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
    provider: str
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
    results: Sequence[ResultCard]
    report_problem: str


def build_home_page(facts: HomePageFacts) -> HomePage:
    """Returns the read model of the page."""
    models = facts.models
    return HomePage(
        version=facts.version,
        status=facts.status,
        notes=facts.notes,
        base_url=facts.base_url,
        config_digest=facts.config_digest,
        models=None if models is None else [_build_model_entry(facts, model) for model in models[:_MAX_MODELS]],
        hidden_models=max(0, len(models or ()) - _MAX_MODELS),
        patterns=facts.patterns,
        results=[
            _build_result_card(result, facts.config_digest) for result in (facts.report.results if facts.report else ())
        ],
        report_problem=facts.report_problem,
    )


def _build_model_entry(facts: HomePageFacts, model: ListedModel) -> ModelEntry:
    examples = (
        Example("curl", "curl", render_curl(facts.base_url, model.name, needs_key=facts.needs_key)),
        Example(
            "python",
            "Python, package openai",
            render_python(facts.base_url, model.name, needs_key=facts.needs_key),
        ),
    )
    return ModelEntry(model.name, model.provider, examples)


def _build_result_card(result: SavedResult, config_digest: str) -> ResultCard:
    titles_by_advice: dict[str, list[str]] = {}
    for check in result.checks:
        if check.verdict == "fail":
            titles_by_advice.setdefault(check.advice, []).append(check.title)
    passed, failed = result.count("pass"), result.count("fail")
    return ResultCard(
        model=result.model,
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
