"""What routes call: accepts and plans requests and produces replies; also models, contexts and conversations.

May import `gateway.jobs`, `gateway.planning`, `gateway.replies`, `gateway.http`, `gateway.sealing` and `gateway.state`.
"""
