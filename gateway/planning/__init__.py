"""Plans how a request is served, before anything is sent: route, capabilities, history, relay or translation.

May import `dataplane`, `gateway.config`, `gateway.errors`, `gateway.http`, `gateway.logs`, `gateway.replies`,
`gateway.sealing`, `gateway.state`, `gateway.tools`, `gateway.upstreams`, `providers.base`,
`providers.engine_checks`, `providers.errors`, `providers.model_families`, `providers.new_id`, `providers.profiles`
and `translation`.
"""
