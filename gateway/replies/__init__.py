"""Produces replies: event streams and JSON objects of each API, the loss header, and their recording in the store.

May import `gateway.http`, `gateway.state`, `gateway.sealing`, `gateway.upstreams`, `gateway.logs`,
`gateway.error_replies`, `gateway.errors`, `dataplane`, `providers.base`, `providers.errors`,
`providers.request_ids` and `translation`.
"""
