"""The limits of a loop of a model and tools, of the schemas of its tools, and of what servers answer.

The configuration uses these values, so this module imports no library.
"""

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True, kw_only=True)
class LoopBounds:
    """The bounds of one response. The configuration sets them, and `max_tool_calls` of a request lowers `calls`."""

    rounds: int = 32
    """The number of rounds in which the model is offered the tools. One more round without them may follow."""
    calls: int = 64
    """The number of calls of hosted tools that are run."""
    identical_calls: int = 3
    """Of this many identical calls with the same result, the last one is not run: it is answered with a hint."""
    seconds: float | None = None
    """The time in seconds after which the tools are removed; None if there is no limit. The caller has the clock."""
    errors_in_a_row: int = 5
    """After this many calls in a row that failed the tools are withdrawn, so that the model has to answer."""
    argument_bytes: int = 200_000
    """The longest arguments of a call. A reply with longer ones ends there, as if the upstream had cut it."""
    open_approvals: int = 32
    """The number of approvals that one response may request."""
    runs_with_client_calls: bool = True
    """Whether calls of a round are run in which the client has calls to answer, so that the reply ends with it."""
    total_result_bytes: int = 20 * 1024 * 1024
    """The largest size of all results together. Further ones are dropped, and the model reads that."""
    result_chars: int = 100_000
    """The most characters of a result that the model reads."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SchemaLimits:
    """The largest schema of a tool: its JSON in bytes, and how deep objects may be nested in it."""

    max_bytes: int = 64 * 1024
    max_depth: int = 32


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerLimits:
    """The bounds of one answer of a server. They are checked before it is parsed, and stop at the first fault."""

    max_bytes: int = 5 * 1024 * 1024
    max_values: int = 80_000
    """The values of JSON: objects, lists and what they contain."""
    max_depth: int = 100
    """How deep objects and lists may be nested in one tool, or in one result."""
    max_parts: int = 2_000
    """The parts of the content of one result."""
    max_listed: int = 10_000
    """The tools on one page of a list."""


DEFAULT_ANSWER_LIMITS: Final = AnswerLimits()
DEFAULT_SCHEMA_LIMITS: Final = SchemaLimits()
