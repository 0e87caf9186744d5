"""The WebSocket transport of the Responses API. https://developers.openai.com/api/docs/guides/websocket-mode

May import `gateway.service` and the packages below it; no route.
"""
