"""Runs responses that outlive their HTTP request: claims jobs, renews leases, and writes events to the event log.

May import `dataplane.sharing.fair_turns`, `dataplane.sharing.work_pool`, `gateway.config`, `gateway.error_replies`,
`gateway.errors`, `gateway.http`, `gateway.logs`, `gateway.replies`, `gateway.sealing`, `gateway.state`,
`providers.errors`, `providers.request_ids` and `translation`.
"""
