"""Executors of hosted tools: the interface that each kind of tools implements, and wrappers that change one thing of
it.

May import `gateway.tools.redacted_results`, `translation.errors`, `translation.hosted` and
`translation.representation`.
"""
