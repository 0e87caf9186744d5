"""Requests for names with several upstreams: the attempts of a run, and reports on where turns go.

May import `gateway.config`, `gateway.errors`, `gateway.logs`, `gateway.planning`, `gateway.replies`, `gateway.sealing`,
`gateway.tools.loop_io`, `gateway.upstreams`, `gateway.service.admission`, `dataplane.source`, `providers.base`,
`providers.errors` and `translation`.
"""
