"""Replies of the APIs that other vendors defined: the row of translators and the encoders of each API.

May import `gateway.replies`, `gateway.http`, `gateway.state`, `dataplane`, `providers.base`, `providers.new_id` and
`translation`.
"""
