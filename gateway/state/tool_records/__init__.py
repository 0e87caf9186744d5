"""Records of hosted tools in SQL: the approvals of their calls.

May import `gateway.state.database`, `gateway.state.approvals`, `gateway.state.ids` and `translation`.
"""
