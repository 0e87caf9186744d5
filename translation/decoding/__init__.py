"""Decodes what several upstream dialects report in the same way: token counts, log probabilities, overflow messages.

May import `translation.representation` only.
"""
