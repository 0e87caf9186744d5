#!/usr/bin/env bash
# The calls of the tutorial against a running server: smoke.sh [URL], else BASE_URL. MODEL and API_KEY say what is asked.
set -euo pipefail

if [ $# -gt 1 ]; then
    echo "usage: $0 [URL], as in $0 http://127.0.0.1:8080/v1" >&2
    exit 2
fi
BASE_URL=${1:-${BASE_URL:-http://127.0.0.1:8080/v1}}
BASE_URL=${BASE_URL%/}
[[ $BASE_URL == */v1 ]] || BASE_URL+=/v1
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
    /models

expect "a response is an object with output" 200 '"object": ?"response"
"status": ?"completed"
"type": ?"output_text"' \
    /responses "{\"model\": \"$MODEL\", \"input\": \"Say hello.\"}"

expect "a model that must call a tool calls it" 200 '"type": ?"function_call"
"name": ?"get_weather"
\\"city\\": ?\\"' \
    /responses "{\"model\": \"$MODEL\", \"input\": \"What is the weather in Paris?\", \"tools\": [$TOOL],
                 \"tool_choice\": \"required\"}"

expect "a streamed response ends in response.completed" 200 '^event: response.created$
^event: response.output_text.delta$
^event: response.completed$' \
    /responses "{\"model\": \"$MODEL\", \"input\": \"Say hello.\", \"stream\": true}"

expect "a chat completion has a choice" 200 '"object": ?"chat.completion"
"finish_reason": ?"stop"' \
    /chat/completions "{\"model\": \"$MODEL\", \"messages\": [{\"role\": \"user\", \"content\": \"Say hello.\"}]}"

expect "a streamed chat completion ends in [DONE]" 200 '"object": ?"chat.completion.chunk"
"finish_reason": ?"stop"
^data: \[DONE\]$' \
    /chat/completions "{\"model\": \"$MODEL\", \"messages\": [{\"role\": \"user\", \"content\": \"Say hello.\"}], \"stream\": true}"

expect "a missing field is refused by name" 400 '"error"
"type": ?"invalid_request_error"
"param": ?"messages"' \
    /chat/completions "{\"model\": \"$MODEL\"}"
