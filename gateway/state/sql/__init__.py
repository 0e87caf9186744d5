"""Implements the store in SQL, on SQLite and PostgreSQL: responses, conversations, completions, jobs, the event log.

May import `gateway.state.database`, `gateway.state.store`, `gateway.sealing` and `gateway.config`.
"""
