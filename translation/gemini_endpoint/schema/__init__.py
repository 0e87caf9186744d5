"""The shapes of requests of Gemini's API, and the normalization of their field names, which precedes validation.

May import `translation.representation`, `translation.validation` and `translation.errors`.
"""
