"""The WebSocket transport of the Responses API. https://developers.openai.com/api/docs/guides/websocket-mode

May import `dataplane.body_weight`, `gateway.service`, `gateway.planning`, `gateway.replies`, `gateway.http`,
`gateway.config`, `gateway.logs`, `gateway.error_replies`, `gateway.errors`, `providers.base`, `providers.errors`,
`providers.request_ids` and `translation`.
"""
