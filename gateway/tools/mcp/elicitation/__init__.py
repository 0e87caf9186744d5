"""Input that a tool asks for in the middle of a call, in the messages of the protocol.

May import `gateway.tools.mcp.errors`, `gateway.tools.mcp.messages` and `translation.hosted`.
"""
