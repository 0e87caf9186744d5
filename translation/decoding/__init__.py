"""Shared parts of the decoders: token counts, log probabilities, split characters, messages about long contexts.

May import `translation.representation` and `translation.errors`.
"""
