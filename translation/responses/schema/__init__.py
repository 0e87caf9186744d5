"""The shapes of requests of the Responses and Conversations APIs, as typed dictionaries that pydantic validates.

May import `translation.representation`, `translation.responses.input_items`, `translation.lenient_validation`,
`translation.unknown_fields`, `translation.validation` and `translation.errors`.
"""
