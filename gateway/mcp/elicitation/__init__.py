"""Input that a tool asks for in the middle of a call, in the messages of the protocol.

May import `gateway.mcp.errors`, `gateway.mcp.messages` and `translation.hosted`.
"""
