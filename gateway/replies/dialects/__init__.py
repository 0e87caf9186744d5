"""Replies of the APIs that other vendors defined: a row of translators for each, and what only its replies have.

May import `gateway.replies`, `gateway.http`, `gateway.state`, `dataplane`, `providers.base`, `providers.new_id` and
`translation`.
"""
