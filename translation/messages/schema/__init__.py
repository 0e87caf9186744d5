"""The shapes of requests of the Messages API, and the keys within requests that have no shape.

May import `translation.representation`, `translation.validation` and `translation.errors`.
"""
