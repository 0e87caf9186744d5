"""Plans how a request is served, before anything is sent: route, capabilities, history, relay or translation.

May import `gateway.replies`, `gateway.sealing`, `gateway.tools`, `gateway.state.store`, `gateway.config` and
`providers.base`.
"""
