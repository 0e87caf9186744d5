"""Requests for names with several upstreams: the attempts of a run, and reports on where turns go.

May import `gateway.config`, `gateway.errors`, `gateway.logs`, `gateway.planning`, `gateway.replies`,
`gateway.upstreams`, `gateway.service.admission`, `providers.base` and `translation`.
"""
