#!/usr/bin/env bash
# One call of each client API against a running server, streams, a function call and an error: smoke.sh [URL], else BASE_URL.
# MODEL and API_KEY say what is asked. Stored state, tools of MCP servers and thinking budgets depend on the server: doctor tests them.
set -euo pipefail

if [ $# -gt 1 ]; then
    echo "usage: $0 [URL], as in $0 http://127.0.0.1:8080/v1" >&2
    exit 2
fi
BASE_URL=${1:-${BASE_URL:-http://127.0.0.1:8080/v1}}
BASE_URL=${BASE_URL%/}
BASE_URL=${BASE_URL%/v1}
MODEL=${MODEL:-demo}
API_KEY=${API_KEY:-none}

call() { # call PATH [BODY]: the reply's body, then its status on a line of its own
    local arguments=(--silent --show-error --no-buffer --max-time 60 --write-out '\n%{http_code}\n'
        --header "Authorization: Bearer $API_KEY" --header "Content-Type: application/json")
    [ $# -lt 2 ] || arguments+=(--data "$2")
    curl "${arguments[@]}" "$BASE_URL$1"
}

expect() { # expect CLAIM STATUS PATTERN PATH [BODY]: the reply has that status and matches every line of PATTERN
    local claim=$1 status=$2 patterns=$3 reply
    reply=$(call "${@:4}")
    if [ "$(tail -n 1 <<<"$reply")" != "$status" ]; then
        printf 'FAILED  %s: not a %s\n%s\n' "$claim" "$status" "$reply" >&2
        exit 1
    fi
    while read -r pattern; do
        if ! grep -Eq -- "$pattern" <<<"$reply"; then
            printf 'FAILED  %s: nothing matches %s\n%s\n' "$claim" "$pattern" "$reply" >&2
            exit 1
        fi
    done <<<"$patterns"
    echo "ok      $claim"
}

TOOL='{"type": "function", "name": "get_weather", "parameters":
    {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}}'

expect "the model is listed" 200 "\"id\": ?\"$MODEL\"" \
    /v1/models

expect "a response is an object with output" 200 '"object": ?"response"
"status": ?"completed"
"type": ?"output_text"' \
    /v1/responses "{\"model\": \"$MODEL\", \"input\": \"Say hello.\"}"

expect "a model that must call a tool calls it" 200 '"type": ?"function_call"
"name": ?"get_weather"
\\"city\\": ?\\"' \
    /v1/responses "{\"model\": \"$MODEL\", \"input\": \"What is the weather in Paris?\", \"tools\": [$TOOL],
                 \"tool_choice\": \"required\"}"

expect "a streamed response ends in response.completed" 200 '^event: response.created$
^event: response.output_text.delta$
^event: response.completed$' \
    /v1/responses "{\"model\": \"$MODEL\", \"input\": \"Say hello.\", \"stream\": true}"

expect "a chat completion has a choice" 200 '"object": ?"chat.completion"
"finish_reason": ?"stop"' \
    /v1/chat/completions "{\"model\": \"$MODEL\", \"messages\": [{\"role\": \"user\", \"content\": \"Say hello.\"}]}"

expect "a streamed chat completion ends in [DONE]" 200 '"object": ?"chat.completion.chunk"
"finish_reason": ?"stop"
^data: \[DONE\]$' \
    /v1/chat/completions "{\"model\": \"$MODEL\", \"messages\": [{\"role\": \"user\", \"content\": \"Say hello.\"}], \"stream\": true}"

expect "a message of the Messages API has content" 200 '"type": ?"message"
"stop_reason": ?"end_turn"' \
    /v1/messages "{\"model\": \"$MODEL\", \"max_tokens\": 1000, \"messages\": [{\"role\": \"user\", \"content\": \"Say hello.\"}]}"

expect "a reply of Gemini's API has a candidate" 200 '"candidates"
"finishReason": ?"STOP"' \
    "/v1beta/models/$MODEL:generateContent" '{"contents": [{"role": "user", "parts": [{"text": "Say hello."}]}]}'

expect "a reply of Ollama's API is done" 200 '"message"
"done": ?true' \
    /api/chat "{\"model\": \"$MODEL\", \"stream\": false, \"messages\": [{\"role\": \"user\", \"content\": \"Say hello.\"}]}"

expect "a run of AG-UI finishes" 200 '"type": ?"RUN_STARTED"
"type": ?"RUN_FINISHED"' \
    "/v1/agui/$MODEL" "{\"threadId\": \"smoke-$$-$(date +%s)\", "'"runId": "r", "state": {}, "tools": [], "context": [], "forwardedProps": {},
                 "messages": [{"id": "m", "role": "user", "content": "Say hello."}]}'

expect "a reply of POST /generate has an answer" 200 '"response": ?"' \
    /generate "{\"model\": \"$MODEL\", \"messages\": [{\"role\": \"user\", \"content\": \"Say hello.\"}]}"

expect "a missing field is refused by name" 400 '"error"
"type": ?"invalid_request_error"
"param": ?"messages"' \
    /v1/chat/completions "{\"model\": \"$MODEL\"}"
