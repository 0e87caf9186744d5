"""AG-UI: the protocol of user interfaces for agents, as an endpoint. Its runs are requests of the Responses API.

May import `translation.hosted` and the packages below it; no other dialect.
"""
