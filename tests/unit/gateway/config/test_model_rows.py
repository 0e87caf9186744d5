"""gateway/config/model_rows.py: several upstreams of one name, and each mistake with its place and advice."""

from pathlib import Path

import pytest
from typer.testing import CliRunner

from gateway.cli.commands import app
from gateway.config import telemetry_settings
from gateway.config.hints import find_hints
from gateway.config.routing_settings import RoutingSettings, TurnRouting
from gateway.config.settings import Settings, parse_settings
from gateway.config.yaml_file import parse_yaml

PROVIDERS = """providers:
  a: {type: openai_compatible, base_url: 'http://localhost:1/v1'}
  b: {type: openai_compatible, base_url: 'http://localhost:2/v1', silence_s: 30}
  c: {type: anthropic, api_key: k}
models:
"""

MISTAKES: dict[str, tuple[str, str]] = {
    "provider and upstreams": (
        "  m: {provider: a, upstreams: [{provider: b}]}",
        "models.m.upstreams: write provider or upstreams, not both",
    ),
    "neither": (
        "  m: {model: x}",
        "models.m.provider: is missing; write the provider that serves the model, or upstreams",
    ),
    "an empty list": ("  m: {upstreams: []}", "models.m.upstreams: write at least one"),
    "no list": ("  m: {upstreams: a}", "models.m.upstreams: write a list: [a, b], not 'a'"),
    "a row that is a name": ("  m: {upstreams: [a]}", "models.m.upstreams[0]: write keys and values: {key: value}"),
    "a row without a provider": (
        "  m: {upstreams: [{weight: 2}]}",
        "models.m.upstreams[0].provider: is missing; write the provider that serves the model",
    ),
    "an unknown provider": (
        "  model-one:\n    upstreams:\n      - {provider: a}\n      - {provider: bb}",
        "9: models.model-one.upstreams[1].provider: there is no provider 'bb'; write one of a, b, c",
    ),
    "an unknown provider with the name of another one": (
        "  m: {upstreams: [{provider: gpu-aa}]}\nproviders: {gpu-a: {type: scripted}}",
        "models.m.upstreams[0].provider: there is no provider 'gpu-aa'; did you mean gpu-a?",
    ),
    "two rows with the same provider and model": (
        "  m: {upstreams: [{provider: a}, {provider: b}, {provider: a}]}",
        "models.m.upstreams[2]: the same provider and model as upstreams[0]: write one row, with the sum of both",
    ),
    "the model beside the rows makes two of them the same": (
        "  m: {model: x, upstreams: [{provider: a}, {provider: a, model: x}]}",
        "models.m.upstreams[1]: the same provider and model as upstreams[0]",
    ),
    "a negative weight": (
        "  m: {upstreams: [{provider: a, weight: -1}]}",
        "models.m.upstreams[0].weight: should be greater than or equal to 0",
    ),
    "a weight that is not finite": (
        "  m: {upstreams: [{provider: a, weight: .inf}]}",
        "models.m.upstreams[0].weight: write a finite number",
    ),
    "a weight that is not a number": (
        "  m: {upstreams: [{provider: a, weight: .nan}]}",
        "models.m.upstreams[0].weight: write a finite number",
    ),
    "a weight that is no number": (
        "  m: {upstreams: [{provider: a, weight: true}]}",
        "models.m.upstreams[0].weight: write a number",
    ),
    "only weights of 0 in a tier": (
        "  m: {upstreams: [{provider: a}, {provider: b, tier: 1, weight: 0}, {provider: c, tier: 1, weight: 0}]}",
        "models.m.upstreams[1].weight: every row of tier 1 has weight 0, so it gets no turns: write a weight",
    ),
    "a tier that is not whole": (
        "  m: {upstreams: [{provider: a, tier: 0.5}]}",
        "models.m.upstreams[0].tier: write a whole number, not 0.5",
    ),
    "a negative tier": (
        "  m: {upstreams: [{provider: a, tier: -1}]}",
        "models.m.upstreams[0].tier: should be greater than or equal to 0",
    ),
    "an unknown balance": (
        "  m: {upstreams: [{provider: a}], balance: random}",
        "models.m.balance: write 'least_busy', 'weighted', 'latency' or 'prefix', not 'random'",
    ),
    "an unknown affinity": (
        "  m: {upstreams: [{provider: a}], affinity: session}",
        "models.m.affinity: write auto, none or header:NAME",
    ),
    "an illegal header name": (
        "  m: {upstreams: [{provider: a}], affinity: 'header:x y'}",
        "models.m.affinity: 'x y' is no name of a header: write one, as in header:x-session",
    ),
    "no header name": (
        "  m: {upstreams: [{provider: a}], affinity: 'header:'}",
        "models.m.affinity: '' is no name of a header",
    ),
    "balance beside provider": (
        "  m: {provider: a, balance: weighted}",
        "models.m.balance: it has no effect on one provider: write upstreams, or leave it out",
    ),
    "affinity beside provider": (
        "  m: {provider: a, affinity: none}",
        "models.m.affinity: it has no effect on one provider: write upstreams, or leave it out",
    ),
    "routing beside provider": (
        "  m: {provider: a, routing: {attempts: 2}}",
        "models.m.routing: it has no effect on one provider: write upstreams, or leave it out",
    ),
    "too few attempts": (
        "  m: {upstreams: [{provider: a}], routing: {attempts: 0}}",
        "models.m.routing.attempts: should be greater than or equal to 1",
    ),
    "too many attempts": (
        "  m: {provider: a}\nrouting: {attempts: 11}",
        "routing.attempts: should be less than or equal to 10",
    ),
    "an unknown judgement": (
        "  m: {upstreams: [{provider: a}], routing: {fallback_on: [timeout]}}",
        "models.m.routing.fallback_on[0]: write 'context_length_exceeded' or 'content_filter', not 'timeout'",
    ),
    "an unknown key of routing": (
        "  m: {upstreams: [{provider: a}], routing: {attemps: 1}}",
        "models.m.routing.attemps: unknown key; did you mean attempts?",
    ),
    "a limit below 1": (
        "  m: {provider: d}\nproviders: {d: {type: scripted, max_in_flight: 0}}",
        "providers.d.max_in_flight: should be greater than or equal to 1",
    ),
    "a limit that is not whole": (
        "  m: {provider: d}\nproviders: {d: {type: scripted, max_in_flight: 1.5}}",
        "providers.d.max_in_flight: write a whole number, not 1.5",
    ),
    "a longest ejection below the first": (
        "  m: {provider: a}\nrouting:\n  eject_s: 10\n  eject_max_s: 9",
        "9: routing.eject_max_s: write at least eject_s, which is 10 s, or a smaller eject_s",
    ),
    "a first ejection above the longest by default": (
        "  m: {provider: a}\nrouting: {eject_s: 61}",
        "routing.eject_max_s: write at least eject_s, which is 61 s, or a smaller eject_s",
    ),
    "a longest parking below the first": (
        "  m: {provider: a}\nrouting: {park_s: 10, park_max_s: 9}",
        "routing.park_max_s: write at least park_s, which is 10 s, or a smaller park_s",
    ),
    **{
        f"a share of traces of {share}": (
            f"  m: {{provider: a}}\ntracing: {{endpoint: 'http://collector:4318', sample: {share}}}",
            f"tracing.sample: should be {bound}",
        )
        for share, bound in {"1.5": "less than or equal to 1", "-0.1": "greater than or equal to 0"}.items()
    },
    "metrics at the address of the server": (
        "  m: {provider: a}\nserver: {port: 9464}\nmetrics:\n  listen: 'localhost:9464'",
        "9: metrics.listen: localhost:9464 is where the server itself listens",
    ),
    **{
        f"the key {key} of routing for one name": (
            f"  m:\n    upstreams: [{{provider: a}}]\n    routing:\n      {key}: 1",
            f"9: models.m.routing.{key}: it is the same for all names: write it in the section routing",
        )
        for key in sorted(RoutingSettings.model_fields.keys() - TurnRouting.model_fields.keys())
    },
    **{
        f"the key {key} in a row": (
            f"  m: {{upstreams: [{{provider: a, {key}: {value}}}]}}",
            f"models.m.upstreams[0].{key}: it belongs to the name: write it beside upstreams",
        )
        for key, value in {
            "resumable": "true",
            "strict": "true",
            "tools": "{}",
            "balance": "weighted",
            "affinity": "none",
            "routing": "{}",
        }.items()
    },
    "an unknown key in a row": (
        "  m: {upstreams: [{provider: a, wieght: 1}]}",
        "models.m.upstreams[0].wieght: unknown key; did you mean weight?",
    ),
    "an unknown profile of a row": (
        "  m: {upstreams: [{provider: a, profile: deepsek}]}",
        "models.m.upstreams[0].profile: there is no profile deepsek; write one of",
    ),
    "a shared key that one row does not use": (
        "  m:\n    max_thinking_tokens: 5\n    upstreams: [{provider: a}, {provider: b}]",
        "7: models.m.max_thinking_tokens: openai_compatible does not use it: leave it out",
    ),
    "two passes of a row whose provider cannot continue a reply": (
        "  m: {upstreams: [{provider: c, two_pass: true}]}",
        "models.m.upstreams[0].two_pass: anthropic cannot continue a partial reply",
    ),
}


def settings_of(text: str) -> Settings:
    document = parse_yaml(PROVIDERS + text if "providers:" not in text else f"models:\n{text}", "config.yaml")
    return parse_settings(document.tree, environ={})


def write_config(text: str, folder: Path) -> Path:
    file = folder / "config.yaml"
    file.write_text(f"models:\n{text}\n" if "\nproviders:" in text else f"{PROVIDERS}{text}\n")
    return file


def check_config(text: str, folder: Path) -> tuple[int, list[str]]:
    """Returns the exit status of `check-config`, and the lines that it writes to stderr, without the file's name."""
    file = write_config(text, folder)
    result = CliRunner().invoke(app, ["check-config", str(file)])
    lines = result.stderr.splitlines()
    assert all(line.startswith(f"{file}:") for line in lines)
    return result.exit_code, [line.removeprefix(f"{file}:") for line in lines]


@pytest.mark.usefixtures("logs_unconfigured")
@pytest.mark.parametrize(("text", "line"), MISTAKES.values(), ids=MISTAKES)
def test_a_mistake_is_one_line_with_its_place_and_advice(text: str, line: str, tmp_path: Path) -> None:
    code, lines = check_config(text, tmp_path)
    assert (code, len(lines)) == (2, 1), lines
    number, _, problem = lines[0].partition(": ")
    assert number.isdigit()
    assert (lines[0] if line[0].isdigit() else problem).startswith(line)


@pytest.mark.usefixtures("logs_unconfigured")
def test_traces_without_their_package_are_a_mistake_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(telemetry_settings, "_PACKAGE", "nobody.at.all")
    code, [line] = check_config("  m: {provider: a}\ntracing: {endpoint: 'http://collector:4318'}", tmp_path)
    assert code == 2
    assert line.startswith("7: tracing: OpenTelemetry is not installed")
    assert 'pip install "responses-gateway[tracing]"' in line


def test_the_keys_beside_the_rows_are_their_defaults_and_mappings_are_merged() -> None:
    model = settings_of(
        "  m: {model: x, request_defaults: {temperature: 1, top_p: 1}, capabilities: {images: true}, upstreams: "
        "[{provider: a, weight: 2, request_defaults: {top_p: 0.5}, capabilities: {audio: true}}, "
        "{provider: b, model: y, tier: 1}]}"
    ).models["m"]
    first, second = model.rows
    assert (first.provider, first.model, first.weight, first.tier) == ("a", "x", 2, 0)
    assert (second.provider, second.model, second.weight, second.tier) == ("b", "y", 1, 1)
    assert first.request_defaults == {"temperature": 1, "top_p": 0.5}
    assert second.request_defaults == {"temperature": 1, "top_p": 1}
    assert first.capabilities.to_overrides() == {"images": True, "audio": True}
    assert second.capabilities.to_overrides() == {"images": True}


def test_a_name_with_a_provider_has_one_row_of_its_own_keys() -> None:
    (row,) = settings_of("  m: {provider: a, model: x, think_open: true}").models["m"].rows
    assert (row.provider, row.model, row.to_overrides()) == ("a", "x", {"think_open": True})


def test_a_row_of_a_name_is_a_name_with_a_provider() -> None:
    text = "  m: {strict: true, model: x, upstreams: [{provider: a, think_open: true}, {provider: b}]}"
    model = settings_of(text).models["m"]
    first, second = model.with_row(0), model.with_row(1)
    assert (first.provider, first.model, first.strict, first.upstreams) == ("a", "x", True, None)
    assert first.to_overrides() == {"think_open": True}
    assert (second.provider, second.model, second.strict, second.to_overrides()) == ("b", "x", True, {})
    alone = settings_of("  m: {provider: a}").models["m"]
    assert alone.with_row(0) is alone


def test_a_name_overrides_the_keys_of_routing_that_it_sets() -> None:
    settings = RoutingSettings(attempts=5, total_s=7, wait_s=1)
    own = TurnRouting.model_validate({"attempts": 2, "total_s": None})
    turn = settings.for_model(own)
    assert (turn.attempts, turn.total_s, turn.wait_s) == (2, None, 1)
    assert settings.for_model(None).attempts == 5


def test_types_of_providers_decide_where_health_and_load_are_reported() -> None:
    types = "{v: {type: vllm}, w: {type: vllm, health_path: null, load_report: metrics}, s: {type: scripted}}"
    providers = parse_settings(parse_yaml(f"providers: {types}", "config.yaml").tree, environ={}).providers
    assert [providers[name].find_health_path() for name in "vws"] == ["/health", None, None]
    assert [providers[name].find_load_report() for name in "vws"] == ["orca", "metrics", "none"]


UNUSED_C = "  n: {provider: c}\n"

HINTS: dict[str, tuple[str, str]] = {
    "a gap between tiers": (
        UNUSED_C + "  m:\n    upstreams:\n      - {provider: a}\n      - {provider: b, tier: 2}",
        "8: warning: models.m.upstreams: there are the tiers 0, 2: a gap between them has no effect",
    ),
    "a first tier above 0": (
        UNUSED_C + "  m:\n    upstreams:\n      - {provider: a, tier: 1}\n      - {provider: b, tier: 1}",
        "8: warning: models.m.upstreams: there are the tiers 1: a gap between them has no effect",
    ),
    "a weight without others": (
        UNUSED_C + "  m:\n    upstreams:\n      - {provider: b, tier: 1}\n      - {provider: a, weight: 3}",
        "10: warning: models.m.upstreams[1].weight: it has no effect on the only row of tier 0",
    ),
    "a wait for content that silence ends": (
        UNUSED_C + "  m:\n    upstreams: [{provider: a}, {provider: b}]\n    routing:\n      first_content_s: 30",
        "10: warning: models.m.routing.first_content_s: a provider's silence_s of 30 s ends the wait before",
    ),
    "the same in the section": (
        UNUSED_C + "  m: {upstreams: [{provider: a}, {provider: b}]}\nrouting:\n  first_content_s: 31",
        "9: warning: routing.first_content_s: a provider's silence_s of 30 s ends the wait before",
    ),
    "prefixes without affinity": (
        UNUSED_C + "  m:\n    upstreams: [{provider: a}, {provider: b}]\n    balance: prefix\n    affinity: none",
        "10: warning: models.m.affinity: balance: prefix is an affinity, and affinity: none only turns the other keys "
        "off",
    ),
}


@pytest.mark.usefixtures("logs_unconfigured")
@pytest.mark.parametrize(("text", "line"), HINTS.values(), ids=HINTS)
def test_what_is_probably_not_meant_is_a_warning(text: str, line: str, tmp_path: Path) -> None:
    code, lines = check_config(text, tmp_path)
    assert code == 0
    assert line in lines


def test_two_upstreams_without_further_keys_give_no_warning() -> None:
    text = "  m: {upstreams: [{provider: a}, {provider: b}]}\n  n: {provider: c}"
    assert list(find_hints(settings_of(text))) == []
