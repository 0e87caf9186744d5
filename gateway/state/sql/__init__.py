"""Implements the store in SQL, on SQLite and PostgreSQL: responses, conversations, completions, jobs, the event log.

May import `dataplane.body_weight`, `dataplane.sharing.work_pool`, `gateway.config`, `gateway.errors`,
`gateway.histograms`, `gateway.sealing`, `gateway.state`, `providers.new_id` and `translation`.
"""
