"""The migrations of the database: one file per schema change, in `versions/`. Changes only add: docs/adr/0014.

May import `gateway.state.database`.
"""
