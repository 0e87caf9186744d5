"""Connections, transactions, deadlines, migrations and change signals of one database, SQLite or PostgreSQL.

Only this package and the migrations have SQL as text: settings, the start of transactions, notifications; triggers.

May import `dataplane.sharing.descriptors`, `dataplane.sharing.fair_turns`, `dataplane.sharing.work_pool`,
`gateway.errors`, `gateway.histograms` and `gateway.state.values`.
"""
