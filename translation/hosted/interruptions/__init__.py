"""Interrupted loops of tools: their saved state, their sent output, and their continuation by another process. No I/O.

May import `translation.hosted.calls`, `translation.hosted.outcomes`, `translation.hosted.tools`,
`translation.hosted.elicitation` and `translation.representation`.
"""
