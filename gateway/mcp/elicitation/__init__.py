"""Input that a tool asks for in the middle of a call: how the protocol has the question and the answer.

May import `gateway.mcp.errors`, `gateway.mcp.messages` and `translation.hosted`.
"""
