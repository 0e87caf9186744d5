"""The shapes of requests of Gemini's API, and the normalization of their field names, which precedes validation.

May import `translation.unknown_fields`, `translation.validation`,
`translation.representation` and `translation.errors`.
"""
