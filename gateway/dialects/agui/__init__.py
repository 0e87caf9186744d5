"""AG-UI: runs as requests of the Responses API, with threads as conversations.

May import `gateway.routes` and the packages below it.
"""
