"""Connections, transactions, deadlines, migrations and change signals of one database, SQLite or PostgreSQL.

Only this package has SQL as text: settings, the start of transactions, and notifications.

May import `gateway.errors` and `gateway.state.values`.
"""
