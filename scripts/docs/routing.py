"""Renders docs/routing.md, with the table of outcomes from the rows by which attempts are judged."""

from typing import Final

from gateway.upstreams.outcomes import OUTCOMES, HealthEffect, NextRule, SameRule
from scripts.docs.markdown import join_blocks, render_table

_NEXT: Final[dict[NextRule, str]] = {
    "yes": "yes",
    "if_unsafe": "if `retry_unsafe`",
    "if_configured": "if in `fallback_on`",
    "never": "never",
}
_SAME: Final[dict[SameRule, str]] = {
    "never": "never",
    "after_backoff": "after up to 0.25 s",
    "after_delay": "after the delay that it named",
}
_HEALTH: Final[dict[HealthEffect, str]] = {
    "none": "",
    "failure": "a failure",
    "half": "half a failure",
    "ejection": "ejected at once",
}

_GUIDE: Final = """\
# Several upstreams behind one name

A name under `models` has one `provider`, or a list of `upstreams` that serve it together:

```yaml
providers:
  gpu-a: {type: vllm, base_url: "http://10.0.0.1:8000/v1"}
  gpu-b: {type: vllm, base_url: "http://10.0.0.2:8000/v1"}
  openrouter: {type: openrouter, api_key_env: OPENROUTER_API_KEY}
models:
  qwen3:
    upstreams:
      - {provider: gpu-a, weight: 2}
      - {provider: gpu-b}
      - {provider: openrouter, model: qwen/qwen3-32b, tier: 1}
    balance: least_busy
    affinity: auto
    routing: {attempts: 2}
```

Each row has a `provider`, its own name of the `model`, and any key that describes an upstream's model: `capabilities`,
`request_defaults`, keys of its profile. The same keys beside `upstreams` are the defaults of all rows. A mapping of a row is merged with
that beside it, and the row wins. [configuration.md](configuration.md#routing) lists every key, and `check-config` names every mistake. A
reload changes rows, weights and `routing` at once; running replies go on, and what is known of each upstream is kept.

## Which upstream gets a turn

First, rows that cannot serve the request are left out: rows of `weight` 0, rows whose capabilities do not suffice (in strict mode also those with a
loss), and, if the input has reasoning that only the upstream which wrote it can read, all rows but that one (providers of one account
share a `realm`). Without a store, upstreams keep the responses that they make, and a `previous_response_id` goes to the one that has it, as far as
this process knows (the latest 10,000 of a name). If no row is left, the client gets the refusal of the first row.

Then, rows that are not available are left out: those whose upstream is ejected, is parked after a rate limit, or has reached the provider's
`max_in_flight`. Of the others, those of the lowest `tier` are used.

Among these, a request with an affinity key goes to the upstream that ranks first for the key, unless it is much busier than the others (more than
1.25 times the average load plus 2). The key is the first that exists of: `prompt_cache_key`, a session header
(`x-claude-code-session-id`, `session-id`, `session_id`), the conversation, the chain of `previous_response_id`; with `balance: prefix`
also the beginning of the prompt: tools, instructions, first message. The ranking is a hash of key and name, so it is the same on every replica and
after every restart, and an upstream that is added takes over only its share of the sessions.

Without a key, `balance` decides: `least_busy` draws two rows by weight and takes the one with fewer turns in progress; `latency` takes the one with the
shorter expected time to first content; `weighted` draws one row by weight.

If all available rows are full, the turn waits for a free one, for `queue_s` at most. If all rows are parked, the client gets 429 at once with the
time until the first is free. If all are ejected, the one whose ejection ends first is asked nevertheless.

A slot that becomes free goes to the owners of waiting turns in rotation, over all names of the provider and all upstreams of a name, and the turns of one
owner are served in order. So an owner waits for one turn of each other owner, and not for all of them; an owner alone may have all slots and the whole
queue. When `queue_length` turns of a name wait, the newest turn of the owner with the most makes room for a turn of an owner with at least two fewer.
Without keys there is one owner. A turn that waits is not sent to an ejected upstream, as a new one may be. If all its rows are parked for longer than it would wait, it gets
429 at once.

For a name with one `provider` nothing is chosen: the `retries` of the provider apply, and it is never parked or ejected. Its turns count where the provider has
`max_in_flight` or also serves names with several upstreams: they wait for a free slot, and make the provider busier for the others.

## What happens after a failure

As long as nothing was delivered, the next upstream is asked: another one of the tier, then one of the next tier. Once all were tried,
one of them may be asked again. `attempts` counts all of them. For the upstream that is asked next, the request is planned anew: capabilities, losses,
defaults, relay or translation, sealed reasoning, and the parameters that the reply echoes. Nothing is repeated after content was sent to the client or written to an event log.
If the gateway runs tools for a reply, each round of the model is a turn with attempts of its own: the upstream that is asked next gets
the history with all calls, no tool is run again, and rounds prefer the upstream of the round before. Encrypted reasoning of one round leaves only
its maker for the next. An upstream that runs these tools itself does not take over such a round. `x-gateway-attempts` counts the attempts of all
rounds; a stream says how many there were before its first content. Embeddings and other [relayed paths](relay.md) share turns in the same way, among the rows that have the path; a
form goes to the next upstream only if no connection to the one before could be made, so that nothing of the form has been read. A JSON reply is held back up to 4 MiB, a stream up to its first event. Token counts and compaction go to any row that can serve them; a failed count does not change the health of an upstream.

When `total_s` is over, the turn ends: with 504, or with the failure event of a stream that has begun; a relayed body that is no stream is cut off. No
further attempt begins, and a turn that takes too long in all does not change the health of an upstream. Without `compact_threshold`, a context is compacted by the
window of the row that answers.

`health`: five failures in a row, or half of at least five results within ten seconds, eject an upstream for five seconds, then ten, up to
a minute. After that, one turn is its trial. The only upstream of a name is never ejected."""  # noqa: E501

_AFTER_TABLE: Final = """\
Each name has a retry budget: one repetition for every five turns, and three repetitions a second, of which at most thirty are saved up. A repetition is
free if nothing of the failed attempt had been sent, or after the first broken connection of a turn. With an empty budget a turn ends with its failure.

The client gets the failure of the last attempt. But a rate limit, refused credentials or a missing model never replaces an earlier failure of
another kind. `Retry-After` is the shortest delay that an upstream named.

## What you see

- Replies have `x-gateway-upstream` and `x-gateway-attempts`, errors too (`routing.reply_headers: false` turns them off). A request that
  repeats an idempotency key has `x-gateway-attempts: 0`, and the upstream of the run as far as it is known. So has the reply that a background
  response was accepted, without an upstream.
- The upstream that answered is stored with a response or completion: `GET` sends it as `x-gateway-upstream`, with the losses of that
  upstream and no others, also for a stream. A stream that joins a running response, such as one that is resumed, begins with its first content, so
  that its headers and what its first events echo are those of the upstream that answers. If there is no content for `keepalive_s`, it begins
  without them, with the parameters as they were planned.
- The log line of a request has `provider`, `attempts`, `affinity`, `queue_ms`, and `tried` with the result and time of each attempt if there were
  several. `upstream_ejected` and `upstream_restored` are lines of their own.
- `/readyz` has the names without an available upstream in `degraded.upstreams`, and patterns if none of the names that clients asked for
  has one. Its status does not change.
- `responses-gateway routes explain MODEL` says which upstreams serve a name and with which shares, with `--request FILE` also what each could
  do with a request. `--server URL` adds the live state, which `GET /v1/gateway/routes/MODEL` returns as JSON (with keys, for administrators): `load`
  says where the number of `waiting` requests comes from, and is `none` if the upstream reports none.

## Measured

`python -m bench.routing.sessions`: 200 sessions of four turns before eight fake replicas with prefix caches, on a busy machine with two cores. A first
turn cannot be cached, so three quarters is the most.

{sessions}

Both commands print every turn that was not whole, with its error, upstream and time. Repeated beside other work (load 8 on two cores), all 3,200 turns
were ok. On busier machines up to 32 of 800 were not: their connection was closed before a reply. A session then paused for about five seconds between
two turns, and after five the server closed a connection that was idle, just when its client used it again (12 of 600 requests after pauses of 4.9 to
5.05 s). Idle connections now stay open for [`server.idle_s`](configuration.md#server.idle_s), longer than clients keep theirs: 0 of 600.

`python -m bench.routing.failures`: three replicas under load, of which one is killed, frozen or made 200 times slower
(`first_content_s: 1`). No answer was lost, and none was doubled; a stream that had begun on the replica ended in one failure event
(`upstream_disconnected`, or `upstream_timeout` on the frozen one after `silence_s`).

{failures}"""  # noqa: E501

_SESSIONS: Final = """\
| turns go by | cached share of the prompt | first content, median | 95th percentile | not ok |
| --- | --- | --- | --- | --- |
| round robin | 12% | 50 ms | 129 ms | 0 |
| least busy | 11% | 49 ms | 95 ms | 0 |
| prefix | 71% | 30 ms | 82 ms | 0 |
| session key | 71% | 31 ms | 95 ms | 0 |"""

_FAILURES: Final = """\
| one of three | whole, first attempt | whole, further attempt | failed after content | lost | wrong |
| --- | --- | --- | --- | --- | --- |
| kill -9 | 612 | 15 | 2 | 0 | 0 |
| freeze | 427 | 5 | 9 | 0 | 0 |
| slow | 340 | 9 | 0 | 0 | 0 |"""


def render_routing() -> str:
    rows = [
        (
            outcome.title,
            f"`{outcome.result}`",
            _NEXT[outcome.next],
            _SAME[outcome.same],
            "parked" if outcome.result == "rate_limited" else _HEALTH[outcome.health],
        )
        for outcome in OUTCOMES.values()
    ]
    table = render_table(["outcome", "result in the log", "next upstream", "same upstream", "health"], rows)
    end = _AFTER_TABLE.replace("{sessions}", _SESSIONS).replace("{failures}", _FAILURES)
    return join_blocks(_GUIDE, table, end)
