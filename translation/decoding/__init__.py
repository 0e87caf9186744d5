"""Shared parts of the decoders: token counts, log probabilities, split characters, messages about long contexts.

May import `translation.exact_numbers`, `translation.representation` and `translation.errors`.
"""
