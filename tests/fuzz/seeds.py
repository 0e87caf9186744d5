"""Valid bodies that together use every field worth damaging."""

from tests.faults.client_view import CHAT, RESPONSES, Json
from translation.responses.compaction import CompactionContent, build_compaction_item

_SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
_PIXEL = "data:image/png;base64,iVBORw0KGgo="

_RESPONSES: list[Json] = [
    {"model": "m", "input": "Hello", "stream": True},
    {
        "model": "m",
        "instructions": "Be brief.",
        "input": [
            {"role": "developer", "content": "Metric units."},
            {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Weather in Bern?"}]},
            {"type": "reasoning", "id": "rs_1", "summary": [], "content": [{"type": "reasoning_text", "text": "Hm."}]},
            {"type": "function_call", "id": "fc_1", "call_id": "call_1", "name": "weather", "arguments": "{}"},
            {"type": "function_call_output", "call_id": "call_1", "output": "sunny"},
            {
                "type": "message",
                "id": "msg_1",
                "role": "assistant",
                "status": "completed",
                "content": [{"type": "output_text", "text": "Sunny.", "annotations": []}],
            },
            {"role": "user", "content": "And tomorrow?"},
        ],
        "tools": [
            {"type": "function", "name": "weather", "parameters": _SCHEMA, "strict": True, "description": "Now."}
        ],
        "tool_choice": {"type": "function", "name": "weather"},
        "parallel_tool_calls": True,
        "max_output_tokens": 100,
        "temperature": 0.5,
        "top_p": 0.9,
        "metadata": {"who": "me"},
    },
    {
        "model": "m",
        "input": [
            {
                "role": "user",
                "content": [
                    {"type": "input_text", "text": "What is this?"},
                    {"type": "input_image", "image_url": _PIXEL, "detail": "auto"},
                    {"type": "input_file", "filename": "a.txt", "file_data": "data:text/plain;base64,aGk="},
                ],
            }
        ],
        "text": {"format": {"type": "json_schema", "name": "place", "schema": _SCHEMA}, "verbosity": "low"},
        "reasoning": {"effort": "low", "summary": "auto"},
        "include": ["message.output_text.logprobs", "reasoning.encrypted_content"],
        "top_logprobs": 2,
        "store": False,
        "user": "u",
        "stop": ["END"],
        "seed": 1,
    },
    {
        "model": "m",
        "input": [
            {"role": "user", "content": "Patch it."},
            {"type": "custom_tool_call", "id": "ctc_1", "call_id": "call_1", "name": "patch", "input": "+a"},
            {"type": "custom_tool_call_output", "call_id": "call_1", "output": [{"type": "input_text", "text": "ok"}]},
            {
                "type": "shell_call",
                "id": "sh_1",
                "call_id": "call_2",
                "action": {"commands": ["ls"], "timeout_ms": 5},
                "status": "completed",
            },
            {
                "type": "shell_call_output",
                "call_id": "call_2",
                "output": [{"stdout": "a", "stderr": "", "outcome": {"type": "exit", "exit_code": 0}}],
            },
        ],
        "tools": [
            {
                "type": "custom",
                "name": "patch",
                "format": {"type": "grammar", "syntax": "lark", "definition": "a"},
            },
            {"type": "namespace", "name": "n", "description": "", "tools": [{"type": "function", "name": "f"}]},
            {"type": "shell"},
            {"type": "web_search"},
        ],
        "tool_choice": {"type": "allowed_tools", "mode": "auto", "tools": [{"type": "custom", "name": "patch"}]},
        "stream": True,
        "stream_options": {"include_obfuscation": False},
        "truncation": "disabled",
        "service_tier": "auto",
        "background": False,
    },
    {
        "model": "m",
        "input": [
            {"role": "user", "content": "I am Ada."},
            build_compaction_item(
                "cmp_1", CompactionContent("Ada said hello.", rest=[{"role": "user", "content": "Sum up."}])
            ),
            {"role": "assistant", "content": "Done."},
            {"role": "user", "content": "Who am I?"},
        ],
        "context_management": [{"type": "compaction", "compact_threshold": 100}],
        "truncation": "auto",
        "stream": True,
    },
    {"model": "m", "input": [{"role": "user", "content": "I am Ada."}, {"type": "compaction_trigger"}]},
]

_CHAT: list[Json] = [
    {"model": "m", "messages": [{"role": "user", "content": "Hello"}], "stream": True},
    {
        "model": "m",
        "messages": [
            {"role": "system", "content": "Be brief."},
            {"role": "user", "content": "Weather in Bern?", "name": "me"},
            {
                "role": "assistant",
                "content": None,
                "reasoning_content": "Hm.",
                "tool_calls": [
                    {"id": "call_1", "type": "function", "function": {"name": "weather", "arguments": "{}"}},
                    {"id": "call_2", "type": "custom", "custom": {"name": "patch", "input": "+a"}},
                ],
            },
            {"role": "tool", "tool_call_id": "call_1", "content": "sunny"},
            {"role": "tool", "tool_call_id": "call_2", "content": [{"type": "text", "text": "ok"}]},
            {"role": "developer", "content": [{"type": "text", "text": "Metric units."}]},
            {"role": "user", "content": "And tomorrow?"},
        ],
        "tools": [
            {"type": "function", "function": {"name": "weather", "parameters": _SCHEMA, "strict": True}},
            {"type": "custom", "custom": {"name": "patch", "format": {"type": "text"}}},
        ],
        "tool_choice": {"type": "function", "function": {"name": "weather"}},
        "parallel_tool_calls": False,
        "max_completion_tokens": 100,
        "temperature": 0.5,
        "top_p": 0.9,
        "metadata": {"who": "me"},
    },
    {
        "model": "m",
        "messages": [
            {
                "role": "user",
                "content": [
                    {"type": "text", "text": "What is this?"},
                    {"type": "image_url", "image_url": {"url": _PIXEL, "detail": "auto"}},
                    {"type": "file", "file": {"filename": "a.txt", "file_data": "data:text/plain;base64,aGk="}},
                ],
            }
        ],
        "response_format": {"type": "json_schema", "json_schema": {"name": "place", "schema": _SCHEMA}},
        "reasoning_effort": "low",
        "logprobs": True,
        "top_logprobs": 2,
        "stop": "END",
        "seed": 1,
        "n": 1,
        "logit_bias": {"1": 2},
        "frequency_penalty": 0.1,
        "presence_penalty": 0.1,
        "user": "u",
        "stream": True,
        "stream_options": {"include_usage": True},
    },
    {
        "model": "m",
        "messages": [
            {"role": "user", "content": "Add."},
            {"role": "assistant", "content": "", "function_call": {"name": "add", "arguments": "{}"}},
            {"role": "function", "name": "add", "content": "3"},
        ],
        "functions": [{"name": "add", "parameters": _SCHEMA}],
        "function_call": {"name": "add"},
        "max_tokens": 100,
        "store": False,
        "modalities": ["text"],
        "verbosity": "low",
        "service_tier": "auto",
        "extensions": True,
    },
]

SEEDS = {RESPONSES: _RESPONSES, CHAT: _CHAT}
