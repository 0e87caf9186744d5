"""Redacts what an upstream quotes of a request: credentials of its tools, and those of the provider."""

from collections.abc import Callable

from gateway.planning.resolver import Route
from providers.redaction import Redactor
from translation.representation.json_types import Json
from translation.tools.credentials import list_credentials


def build_redactor(request: Json, route: Route) -> Callable[[str], str]:
    """Returns the function that redacts an upstream's message about a request, which may quote its credentials."""
    credentials = list_credentials(request)
    if not credentials:
        return route.provider.redact
    redactor = Redactor(credentials)
    return lambda message: redactor.redact(route.provider.redact(message))
