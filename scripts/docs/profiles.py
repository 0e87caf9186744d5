"""The part of docs/providers.md about profiles, from the families there are, and the checklists."""

from collections.abc import Iterator
from typing import Any

from providers.profiles import MODEL_FAMILIES
from scripts.docs.markdown import table

_PROFILES = """\
A profile is how a family of models is spoken to, whichever server it is behind. It is made of fields: those that follow
from the provider's type ([table](dialects.md#profiles)), over them those of the family that `profile` names, over them
those that the model's own configuration writes.

```yaml
models:
  deepseek-chat: {provider: local, profile: deepseek}
  gemini-on-vertex: {provider: vertex_chat, profile: gemini_chat, schema_shims: [no_schema_key]}
```"""

_TRANSFORMS = """\
What the fields change, each by its name:

- **Roles**: `developer_role` is the role developer messages have, `system_messages` where system messages may stand.
  Templates that take one at the beginning only refuse others (400, `upstream_rejected`): `merge_all` moves them there,
  a loss.
- **Thinking**: `thinking_switch` is how chat switches it, `effort_field` how it says how much; `thinking_form` is the
  same for APIs of their own. `parsing_format: think_tags` takes it out of the text, from the first word on where the
  template has opened the tag (`think_open`). `reasoning_part` is the part of a reasoning item that it comes in.
- **Reasoning** goes back in the field that `replay_reasoning` names. `empty_reasoning: true` gives a chat message with
  calls that field though there is nothing to say in it, where the API refuses the message otherwise.
- **Signatures**: a past call without one, because another model made it or a client dropped it, goes to Gemini with the
  placeholder that its documentation names. `call_signatures` says for which models: those that want one by their names
  (`by_model`), all (`placeholder`), none. Behind a chat API it is `placeholder` or nothing.
- **Ids** of past items go to a Responses upstream with reasoning only, which OpenAI requires. `replay_ids: keep` sends
  all that are known, `drop` none; on a relay that also holds for items as clients sent them.
- **Schemas** of tools are changed by `schema_shims`: `no_empty_required` leaves out an empty `required`,
  `no_schema_key` leaves out `$schema`, `signed_formats` says `uint8` and `uint16` as `int32`, `uint32` and `uint64`
  as `int64`, in schemas inside schemas too. `no_descriptions` leaves out what functions are said to do: a loss.
- **Parallel calls**: `parallel_tool_calls` is what is said where a request has tools and says nothing.
- **Forced calls**: `forced_tool: alone` sends no tool but the one that must be called, for servers that do not heed its
  name.
- **Media** in outputs of tools stay there with `media_in_tool_messages: true`; otherwise they follow in a user message,
  which a loss tells.
- **Citations** of the files of a request are asked for with `cite_documents: true`, for [Anthropic](#anthropic).
- **Length**: `max_tokens_field` is chat's name for the limit of an answer.
- **Calls as text**, for servers that know no tools, are asked for with `text_tool_calls`.
- **Further fields** of requests that an upstream knows are passed on by `extra_params`, as they are.
- **Other fields** of requests that leave them out are in the model's `request_defaults`: `temperature`, or OpenRouter's
  routing, `request_defaults: {provider: {order: [deepinfra]}}`."""

_ADD_PROVIDER = """\
- [ ] It speaks chat or Responses: a name in `ProviderType` and rows in `KINDS`, `CAPABILITIES`, `BUILDERS` and
      `PROFILES`. It has an API of its own: a dialect of its own first.
- [ ] Claim the capabilities that you have seen work, and no others.
- [ ] Rows in the contract suite and in the fault routes.
- [ ] Recorded streams, without keys, and the events they mean.
- [ ] What is particular about it under a heading on this page, and `make docs`.

[CONTRIBUTING](../CONTRIBUTING.md#add-a-provider) names the files."""

_ADD_PROFILE = """\
- [ ] Its habits can be said in fields that exist: a row in `FAMILIES` (`providers/profiles.py`), with the reason, which
      the table above shows. That is all.
- [ ] They cannot: a field in `Profile` (`translation/representation/profile.py`) whose default changes nothing.
- [ ] The key of the same name in `ModelConfig` (`gateway/config/model_config.py`) and in `config.example.yaml`.
- [ ] The transform itself, pure, in the dialect's `lower` and in its `relay_request`; in `translation/hygiene/` where
      every dialect needs it. A vendor's name is in none of them.
- [ ] A test of the transform, on and off, and one on the relay.
- [ ] What is dropped is a `Loss`.
- [ ] A sentence in the list above (`scripts/docs/profiles.py`), and `make docs`."""


def profile_sections() -> list[str]:
    return [
        "## Profiles",
        _PROFILES,
        table(["`profile`", "because", "sets"], _families()),
        _TRANSFORMS,
        "## Add a provider",
        _ADD_PROVIDER,
        "## Add a profile",
        _ADD_PROFILE,
    ]


def _families() -> Iterator[list[str]]:
    for name, family in MODEL_FAMILIES.items():
        said = ", ".join(f"`{field}: {_value(value)}`" for field, value in family.fields.items())
        yield [f"`{name}`", family.reason, said]


def _value(value: Any) -> str:
    if isinstance(value, frozenset):
        return f"[{', '.join(sorted(value))}]"
    return str(value).lower() if isinstance(value, bool) else str(value)
