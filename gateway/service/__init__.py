"""What routes call: accepts a request, plans it, and returns its reply; also models, contexts and conversations.

May import `gateway.jobs`, `gateway.planning`, `gateway.replies`, `gateway.http`, `gateway.sealing` and `gateway.state`.
"""
