"""State that outlives a request: responses, their items and event logs, conversations, chat completions, jobs.

May import `dataplane.body_weight`, `gateway.errors`, `gateway.histograms`, `gateway.retrieval`, `providers.new_id` and
`translation`.
"""
