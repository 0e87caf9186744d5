"""The loop of a model and hosted tools: its rounds, the checks of its calls, and the order of its output. No I/O.

May import `translation.hosted`, `translation.parsers`, `translation.tools`, `translation.representation` and
`translation.errors`.
"""
