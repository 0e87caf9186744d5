"""The WebSocket transport of the Responses API. https://developers.openai.com/api/docs/guides/websocket-mode"""
