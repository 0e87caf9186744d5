"""AG-UI: the protocol of user interfaces for agents, as an endpoint. Its runs are requests of the Responses API.

May import the packages below the dialects; no other dialect.
"""
