"""The four ways through the gateway: (the client's endpoint, the upstream's dialect)."""

from tests.faults.seen import CHAT, RESPONSES

ROUTES = {
    "Responses over chat": (RESPONSES, "chat"),
    "chat relayed": (CHAT, "chat"),
    "Responses relayed": (RESPONSES, "responses"),
    "chat over Responses": (CHAT, "responses"),
}
