"""Requests of tools for user input."""

from typing import Any

from translation.hosted.elicitation.forms import InputForm, RequestedInput
from translation.representation.json_types import Json

SCHEMA: Json = {
    "type": "object",
    "properties": {"people": {"type": "integer", "minimum": 1}, "tags": {"type": "array"}},
    "required": ["people"],
}


SIZE = InputForm(key="size", message="For how many?", schema=SCHEMA)


LOGIN = InputForm(key="login", message="Log in, please.", url="https://login.example.com/start?x=1")


def asking(*forms: InputForm, **more: Any) -> RequestedInput:
    return RequestedInput(forms=forms or (SIZE,), state="opaque", **more)
