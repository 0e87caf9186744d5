"""A response with items of all types that a server runs itself, as OpenAI documents them. No client has to answer."""

from typing import Final

from tests.faults.client_view import Json

WHOLE_RESPONSE: Final[Json] = {
    "id": "resp_up",
    "object": "response",
    "created_at": 1,
    "status": "completed",
    "model": "m",
    "output": [
        {
            "type": "reasoning",
            "id": "rs_1",
            "summary": [{"type": "summary_text", "text": "S"}],
            "content": [{"type": "reasoning_text", "text": "T"}],
            "encrypted_content": "enc",
        },
        {
            "type": "web_search_call",
            "id": "ws_1",
            "status": "completed",
            "action": {"type": "search", "query": "q", "sources": [{"type": "url", "url": "https://a.example"}]},
        },
        {
            "type": "file_search_call",
            "id": "fs_1",
            "status": "completed",
            "queries": ["q"],
            "results": [{"file_id": "file-1", "filename": "a", "score": 0.5, "text": "x", "attributes": {}}],
        },
        {
            "type": "code_interpreter_call",
            "id": "ci_1",
            "status": "completed",
            "code": "1+1",
            "container_id": "c",
            "outputs": [{"type": "logs", "logs": "2"}],
        },
        {"type": "image_generation_call", "id": "ig_1", "status": "completed", "result": "aGk="},
        {
            "type": "mcp_list_tools",
            "id": "mcpl_1",
            "server_label": "s",
            "tools": [
                {
                    "name": "t",
                    "input_schema": {"type": "object"},
                    "description": "d",
                    "annotations": {"read_only": True},
                }
            ],
        },
        {
            "type": "mcp_call",
            "id": "mcp_1",
            "server_label": "s",
            "name": "t",
            "arguments": "{}",
            "output": "o",
            "error": None,
        },
        {"type": "mcp_approval_request", "id": "mcpr_1", "server_label": "s", "name": "t", "arguments": "{}"},
        {
            "type": "tool_search_call",
            "id": "tsc_1",
            "call_id": None,
            "execution": "server",
            "arguments": {"q": 1},
            "status": "completed",
        },
        {
            "type": "tool_search_output",
            "id": "tso_1",
            "call_id": None,
            "execution": "server",
            "tools": [{"type": "function", "name": "f", "parameters": {"type": "object"}}],
            "status": "completed",
        },
        {
            "type": "message",
            "id": "msg_1",
            "role": "assistant",
            "status": "completed",
            "content": [
                {
                    "type": "output_text",
                    "text": "Hello [1]",
                    "annotations": [
                        {
                            "type": "url_citation",
                            "start_index": 0,
                            "end_index": 5,
                            "url": "https://a.example",
                            "title": "A",
                        },
                        {"type": "file_citation", "index": 3, "file_id": "file-1", "filename": "a"},
                    ],
                    "logprobs": [
                        {
                            "token": "Hello",
                            "logprob": -0.1,
                            "bytes": [1],
                            "top_logprobs": [{"token": "a", "logprob": -1, "bytes": [2]}],
                        }
                    ],
                },
                {"type": "refusal", "refusal": "no"},
            ],
        },
    ],
    "usage": {
        "input_tokens": 3,
        "input_tokens_details": {"cached_tokens": 0},
        "output_tokens": 4,
        "output_tokens_details": {"reasoning_tokens": 1},
        "total_tokens": 7,
    },
    "incomplete_details": None,
}
