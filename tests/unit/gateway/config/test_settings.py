"""gateway/config/settings.py, checks.py, yaml_file.py: what an operator may write, and how mistakes are reported."""

from pathlib import Path

import pytest

from gateway.config.settings import Settings, load_settings
from gateway.config.yaml_file import ConfigError

ENVIRON = {"KEY": "k-1", "OTHER": "k-2", "PORT": "9000", "EMPTY": ""}

PROVIDERS = "providers: {local: {type: openai_compatible, base_url: 'http://localhost:1/v1'}}\n"


def settings_of(text: str, tmp_path: Path, environ: dict[str, str] = ENVIRON) -> Settings:
    file = tmp_path / "config.yaml"
    file.write_text(text)
    return load_settings(file, environ=environ)


def problems_of(text: str, tmp_path: Path) -> list[str]:
    """Returns the lines of the error, each from the file's name on."""
    with pytest.raises(ConfigError) as raised:
        settings_of(text, tmp_path)
    return [line.removeprefix(f"{tmp_path}/") for line in str(raised.value).splitlines()]


MISTAKES: dict[str, tuple[str, str]] = {
    "an unknown key names the nearest known one": (
        "server:\n  prot: 1\n",
        "config.yaml:2: server.prot: unknown key; did you mean port?",
    ),
    "an unknown key without a near one lists the known ones": (
        "auth: {keys: [{name: a, key: b, zzz: 1}]}\n",
        "config.yaml:1: auth.keys[0].zzz: unknown key; write one of name, owner, key, key_env",
    ),
    "a key of another version is unknown": (
        PROVIDERS + "models: {a: {provider: local, agents: {}}}\n",
        "config.yaml:2: models.a.agents: unknown key; write one of",
    ),
    "a key written twice names both lines": (
        "providers:\n  a: {type: scripted}\n  b: {type: scripted}\n  a: {type: vllm}\n",
        "config.yaml:2: providers.a: written twice, on line 2 and line 4; keep one of the two",
    ),
    "a key that is not text": (
        "models:\n  4: {provider: a}\n",
        "config.yaml:2: models.4: a key must be text; write '4'",
    ),
    "an unknown profile": (
        PROVIDERS + "models: {a: {provider: local, profile: deepsek}}\n",
        "config.yaml:2: models.a.profile: there is no profile deepsek; write one of deepseek, kimi",
    ),
    "a family without patterns": (
        "families: {acme: {parsing_format: think_tags}}\n",
        "config.yaml:1: families.acme.patterns: is missing; write the patterns of the names of its models",
    ),
    "a family with an unknown parser": (
        "families: {acme: {patterns: ['a*'], tool_parser: herms}}\n",
        "config.yaml:1: families.acme.tool_parser: there is no parser herms; write one of openai, hermes",
    ),
    "a missing variable in a value is named": (
        "providers: {a: {type: openai, api_key: '${NOPE}'}}\n",
        "config.yaml:1: providers.a.api_key: the environment variable NOPE is not set; set it, or name another",
    ),
    "a missing variable in an _env key is named": (
        "auth: {keys: [{name: a, key_env: NOPE}]}\n",
        "config.yaml:1: auth.keys[0].key_env: the environment variable NOPE is not set; set it, or name another",
    ),
    "a missing variable is not also a wrong address": (
        "providers: {a: {type: vllm, base_url: '${NOPE}'}}\n",
        "config.yaml:1: providers.a.base_url: the environment variable NOPE is not set; set it, or name another",
    ),
    "a key and a variable for it": (
        "auth: {keys: [{name: a, key: b, key_env: KEY}]}\n",
        "config.yaml:1: auth.keys[0].key_env: write key_env or key, not both",
    ),
    "a model names no provider": (
        PROVIDERS + "models:\n  gpt-4.1: {provider: locla}\n",
        "config.yaml:3: models.\"gpt-4.1\".provider: there is no provider 'locla'; did you mean local?",
    ),
    "a model where there are no providers": (
        "models: {a: {provider: b}}\n",
        "config.yaml:1: models.a.provider: there is no provider 'b'; there are none",
    ),
    "a word for a number": (
        "server: {keepalive_s: soon}\n",
        "config.yaml:1: server.keepalive_s: write a number, not 'soon'",
    ),
    "a fraction for a whole number": (
        "server: {port: 80.5}\n",
        "config.yaml:1: server.port: write a whole number, not 80.5",
    ),
    "true for a number": ("server: {workers: true}\n", "config.yaml:1: server.workers: write a number"),
    "a number for text": (
        PROVIDERS + "models: {a: {provider: local, model: 4}}\n",
        "config.yaml:2: models.a.model: write text; in quotes, if it looks like a number or a date, not 4",
    ),
    "a value for a list": (
        "auth: {keys: [{name: a, key: b, models: x}]}\n",
        "config.yaml:1: auth.keys[0].models: write a list: [a, b], not 'x'",
    ),
    "a list for keys": (
        "server: [1]\n",
        "config.yaml:1: server: write keys and values: {key: value}, not a list",
    ),
    "nothing for keys": (
        "models:\n",
        "config.yaml:1: models: write keys and values: {key: value}, not null",
    ),
    "keys for a number": (
        "server: {port: {a: 1}}\n",
        "config.yaml:1: server.port: write a whole number, not keys and values",
    ),
    "a word for true or false": (
        PROVIDERS + "models: {a: {provider: local, strict: perhaps}}\n",
        "config.yaml:2: models.a.strict: write true or false, not 'perhaps'",
    ),
    "a type there is not": (
        "providers: {a: {type: mainframe}}\n",
        "config.yaml:1: providers.a.type: write 'openai_compatible', 'openai', 'openrouter', ",
    ),
    "a missing key": (
        "providers: {a: {}}\n",
        "config.yaml:1: providers.a.type: is missing; write the kind of server",
    ),
    "a missing key in a list": (
        "auth: {keys: [{key: abc}]}\n",
        "config.yaml:1: auth.keys[0].name: is missing; write the name of the key in logs",
    ),
    "a number out of bounds": (
        "server: {port: 70000}\n",
        "config.yaml:1: server.port: should be less than or equal to 65535",
    ),
    "no keys where there is auth": ("auth: {keys: []}\n", "config.yaml:1: auth.keys: write at least one"),
    "a key that is empty": (
        "auth: {keys: [{name: a, key_env: EMPTY}]}\n",
        "config.yaml:1: auth.keys[0].key: write at least one",
    ),
    "a key's name that nothing can be kept under": (
        'auth: {keys: [{name: "a\\0b", key: x}]}\n',
        "config.yaml:1: auth.keys[0].name: write at most 255 characters, all of them printable",
    ),
    "a key's name that is too long": (
        f"auth: {{keys: [{{name: {'a' * 256}, key: x}}]}}\n",
        "config.yaml:1: auth.keys[0].name: write at most 255 characters, all of them printable",
    ),
    "a key with the name of those without a key": (
        "auth: {keys: [{name: anonymous, key: x}]}\n",
        "config.yaml:1: auth.keys[0].name: anonymous is the owner of what was stored before there were keys; give the "
        "key another name",
    ),
    "two keys of one name": (
        "auth: {keys: [{name: a, key: x}, {name: a, key: y}]}\n",
        "config.yaml:1: auth.keys: two keys are named a; give each its own name",
    ),
    "one key under two names": (
        "auth: {keys: [{name: a, key: x}, {name: b, key: x}]}\n",
        "config.yaml:1: auth.keys: a has the same key as another; give each its own",
    ),
    "an open server": (
        "server: {host: 0.0.0.0}\n",
        "config.yaml:1: server.host: 0.0.0.0 can be reached by others: write auth.keys, or listen on 127.0.0.1 only",
    ),
    "a database there is not": (
        "store: {url: 'mysql://localhost/x'}\n",
        "config.yaml:1: store.url: write sqlite+aiosqlite:///FILE, postgresql+asyncpg://... or null",
    ),
    "a PostgreSQL as other programs write it": (
        "store: {url: 'postgres://gw:hunter2@db:5432/gw?sslmode=require&application_name=a'}\n",
        "config.yaml:1: store.url: write postgresql+asyncpg://gw:PASSWORD@db:5432/gw?ssl=require&application_name=a",
    ),
    "a PostgreSQL without a driver": (
        "store: {url: 'postgresql://db/gw'}\n",
        "config.yaml:1: store.url: write postgresql+asyncpg://db/gw",
    ),
    "a parameter of another driver": (
        "store: {url: 'postgresql+asyncpg://me@db/gw?sslmode=disable'}\n",
        "config.yaml:1: store.url: write postgresql+asyncpg://me@db/gw?ssl=disable",
    ),
    "an SQLite without a driver": (
        "store: {url: 'sqlite:///file.db'}\n",
        "config.yaml:1: store.url: write sqlite+aiosqlite:///file.db",
    ),
    "a database in memory": (
        "store: {url: 'sqlite+aiosqlite:///:memory:'}\n",
        "config.yaml:1: store.url: write sqlite+aiosqlite:///FILE, postgresql+asyncpg://... or null",
    ),
    "a tool parser there is not": (
        PROVIDERS + "models: {a: {provider: local, tool_parser: hermse}}\n",
        "config.yaml:2: models.a.tool_parser: there is no parser hermse; write one of openai, ",
    ),
    "a parser of text calls there is not": (
        PROVIDERS + "models: {a: {provider: local, text_tool_calls: openai}}\n",
        "config.yaml:2: models.a.text_tool_calls: there is no parser openai; write one of none, ",
    ),
    "vLLM's own parser where there is no vLLM": (
        PROVIDERS + "models: {a: {provider: local, tool_parser: 'vllm:glm45'}}\n",
        "config.yaml:2: models.a.tool_parser: vllm:glm45 is only for providers of type vllm_inprocess",
    ),
    "a parser of servers where there is an engine": (
        "providers: {local: {type: vllm}}\nmodels: {a: {provider: local, two_pass: true, tool_parser: openai}}\n",
        "config.yaml:2: models.a.tool_parser: openai is for servers that return calls apart from the text",
    ),
    "two passes where there can be one only": (
        PROVIDERS + "models: {a: {provider: local, two_pass: true}}\n",
        "config.yaml:2: models.a.two_pass: openai_compatible cannot continue a partial reply; providers of type ",
    ),
    "two passes with nothing said of them where there can be one only": (
        PROVIDERS + "models: {a: {provider: local, two_pass: {}}}\n",
        "config.yaml:2: models.a.two_pass: openai_compatible cannot continue a partial reply; providers of type ",
    ),
    "a provider that is said to be able to and is not": (
        "providers: {a: {type: openai, api_key: x, capabilities: {two_pass: true}}}\n",
        "config.yaml:1: providers.a.capabilities.two_pass: openai cannot continue a partial reply; ",
    ),
    "a model that is said to be able to and is not": (
        PROVIDERS + "models: {a: {provider: local, capabilities: {two_pass: true}}}\n",
        "config.yaml:2: models.a.capabilities.two_pass: openai_compatible cannot continue a partial reply; ",
    ),
    "a budget that its engine cannot keep": (
        "providers: {v: {type: llama_server, base_url: 'http://a/v1'}}\nmodels: {a: {provider: v, two_pass: engine}}\n",
        "config.yaml:2: models.a.two_pass: llama_server cannot enforce a thinking budget in one pass: write true",
    ),
    "an effort there is not": (
        "providers: {v: {type: vllm, base_url: 'http://a/v1'}}\n"
        "models: {a: {provider: v, two_pass: {effort_budgets: {lo: 5}}}}\n",
        "config.yaml:2: models.a.effort_budgets.lo: write 'none', 'minimal', 'low', ",
    ),
    "a key of two passes in both places": (
        "providers: {v: {type: vllm}}\nmodels: {a: {provider: v, two_pass: {think_tag: think}, think_tag: thinking}}\n",
        "config.yaml:2: models.a: write think_tag once, in two_pass or beside it",
    ),
    "a budget below nothing": (
        "providers: {v: {type: vllm}}\nmodels: {a: {provider: v, two_pass: true, max_thinking_tokens: -1}}\n",
        "config.yaml:2: models.a.max_thinking_tokens: should be greater than or equal to 0, not -1",
    ),
    "an embedded engine without its model": (
        "providers: {a: {type: llamacpp}}\n",
        "config.yaml:1: providers.a: write model, the model that llamacpp loads",
    ),
    "a model file that is not there": (
        "providers: {a: {type: llamacpp, model: nowhere.gguf}}\n",
        "config.yaml:1: providers.a.model: nowhere.gguf cannot be read: No such file or directory",
    ),
    "a model file of another kind": (
        f"providers: {{a: {{type: llamacpp, model: '{__file__}'}}}}\n",
        f"config.yaml:1: providers.a.model: {__file__} is not a GGUF file",
    ),
    "a hosted service without its key": (
        "providers: {a: {type: openrouter}}\n",
        "config.yaml:1: providers.a: openrouter needs a key: write api_key_env: OPENROUTER_API_KEY and set",
    ),
    "a hosted service with an empty key": (
        "providers: {a: {type: openai, api_key_env: EMPTY}}\n",
        "config.yaml:1: providers.a: openai needs a key: write api_key_env: OPENAI_API_KEY and set that variable",
    ),
    "no YAML": ("a: [1\n", "config.yaml: line 2: not YAML:"),
    "no text": ("a: \x07\n", "config.yaml: not YAML: unacceptable character"),
    "a list as the whole file": ("- a\n", "config.yaml: the file must hold keys such as providers: and models:"),
    "a value in itself": ("models: &a {b: *a}\n", "config.yaml:1: models.b: this value contains itself"),
}


@pytest.mark.parametrize(("text", "line"), MISTAKES.values(), ids=MISTAKES)
def test_a_mistake_is_answered_by_one_line_with_file_path_and_advice(text: str, line: str, tmp_path: Path) -> None:
    (problem,) = problems_of(text, tmp_path)
    assert problem.startswith(line)


def test_all_mistakes_are_reported_at_once_in_the_order_of_the_file(tmp_path: Path) -> None:
    text = (
        "server: {port: abc}\nstore: {url: x}\nproviders:\n  a: {type: openai}\n  b: {tpye: vllm}\n"
        "models:\n  m: {provider: '${NOPE}'}\n  n: {provider: zzz}\n"
    )
    lines = [line.split(": ")[:2] for line in problems_of(text, tmp_path)]
    assert lines == [
        ["config.yaml:1", "server.port"],
        ["config.yaml:2", "store.url"],
        ["config.yaml:4", "providers.a"],
        ["config.yaml:5", "providers.b.type"],
        ["config.yaml:5", "providers.b.tpye"],
        ["config.yaml:7", "models.m.provider"],
        ["config.yaml:7", "models.m.provider"],
        ["config.yaml:8", "models.n.provider"],
    ]


def test_a_missing_file_is_reported_by_name(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"nowhere\.yaml: cannot be read: No such file"):
        load_settings(tmp_path / "nowhere.yaml")


def test_a_file_that_is_not_utf8_is_named(tmp_path: Path) -> None:
    file = tmp_path / "config.yaml"
    file.write_bytes(b"a: \xff\n")
    with pytest.raises(ConfigError, match="the file is not UTF-8 text"):
        load_settings(file)


def test_no_error_contains_a_key(tmp_path: Path) -> None:
    lines = problems_of("auth: {keys: [{name: a, key: [s3cret]}, {name: b, key: s3cret, key_env: KEY}]}\n", tmp_path)
    assert lines
    assert not any("s3cret" in line for line in lines)


def test_the_environment_is_read_into_any_text(tmp_path: Path) -> None:
    text = (
        "server: {port: '${PORT}'}\n"
        "auth: {keys: [{name: a, key_env: KEY}, {name: b, key: '${OTHER}'}]}\n"
        "providers: {p: {type: openai, api_key_env: KEY, headers: {x-a: 'a-${OTHER}-${PORT}'}}}\n"
    )
    settings = settings_of(text, tmp_path)
    assert settings.server.port == 9000
    assert settings.auth is not None
    assert [key.key and key.key.get_secret_value() for key in settings.auth.keys] == ["k-1", "k-2"]
    provider = settings.providers["p"]
    assert provider.key == "k-1"
    assert provider.headers == {"x-a": "a-k-2-9000"}
    assert "k-1" not in repr(settings)


def test_a_dollar_that_opens_no_variable_stays(tmp_path: Path) -> None:
    text = PROVIDERS + "models: {a: {provider: local, request_defaults: {user: '$5 ${ 6 $KEY'}}}\n"
    assert settings_of(text, tmp_path).models["a"].request_defaults == {"user": "$5 ${ 6 $KEY"}


def test_an_empty_file_is_all_defaults(tmp_path: Path) -> None:
    assert settings_of("# nothing\n", tmp_path) == Settings()


def test_anchors_and_merges_are_read(tmp_path: Path) -> None:
    text = "providers:\n  a: &base {type: vllm, connect_s: 1}\n  b: {<<: *base, connect_s: 2}\n  c: {<<: [*base]}\n"
    providers = settings_of(text, tmp_path).providers
    assert [provider.connect_s for provider in providers.values()] == [1, 2, 1]
