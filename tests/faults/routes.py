"""The ways through the gateway: (the client's endpoint, the upstream's dialect)."""

from tests.faults.client_view import CHAT, GEMINI, MESSAGES, OLLAMA, RESPONSES

ROUTES = {
    "Responses over chat": (RESPONSES, "chat"),
    "chat relayed": (CHAT, "chat"),
    "Responses relayed": (RESPONSES, "responses"),
    "chat over Responses": (CHAT, "responses"),
}

NATIVE_ROUTES = {
    "Responses over the Messages API": (RESPONSES, "anthropic"),
    "chat over the Messages API": (CHAT, "anthropic"),
    "Responses over Gemini's": (RESPONSES, "gemini"),
    "chat over Gemini's": (CHAT, "gemini"),
    "Responses over Ollama's": (RESPONSES, "ollama"),
    "chat over Ollama's": (CHAT, "ollama"),
    "Responses over Harmony": (RESPONSES, "harmony"),
    "chat over Harmony": (CHAT, "harmony"),
}
"""Routes of the two APIs of OpenAI to upstreams with another API."""

MESSAGES_ROUTES = {
    "Messages over chat": (MESSAGES, "chat"),
    "Messages over Responses": (MESSAGES, "responses"),
    "Messages relayed": (MESSAGES, "anthropic"),
    "Messages over Gemini's": (MESSAGES, "gemini"),
    "Messages over Ollama's": (MESSAGES, "ollama"),
    "Messages over Harmony": (MESSAGES, "harmony"),
}
"""Routes of clients of the Messages API."""

OLLAMA_ROUTES = {
    "Ollama's over chat": (OLLAMA, "chat"),
    "Ollama's over Responses": (OLLAMA, "responses"),
    "Ollama's over the Messages API": (OLLAMA, "anthropic"),
    "Ollama's over its own": (OLLAMA, "ollama"),
}
"""Routes of clients of Ollama's API."""

GEMINI_ROUTES = {
    "Gemini's API over chat": (GEMINI, "chat"),
    "Gemini's API over Responses": (GEMINI, "responses"),
    "Gemini's API over Messages": (GEMINI, "anthropic"),
    "Gemini's API over Gemini's": (GEMINI, "gemini"),
    "Gemini's API over Ollama's": (GEMINI, "ollama"),
    "Gemini's API over Harmony": (GEMINI, "harmony"),
}
"""Routes of clients of Gemini's API."""
