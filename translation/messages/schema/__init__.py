"""The shapes of requests of the Messages API.

May import `translation.representation`, `translation.lenient_validation`, `translation.unknown_fields`,
`translation.validation` and `translation.errors`.
"""
