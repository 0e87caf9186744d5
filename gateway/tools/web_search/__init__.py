"""Web searches as a kind of hosted tools: the engines, the pages that models open, and the executor of their calls.

May import `gateway.config`, `gateway.retrieval`, `gateway.tools.executors`, `gateway.tools.mapped_tools`, `dataplane`,
`providers` and `translation`.
"""
