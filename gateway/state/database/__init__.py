"""Connections, transactions, deadlines, migrations and change signals of one database, SQLite or PostgreSQL.

May import `gateway.errors` and `gateway.state` modules outside `gateway.state.sql`.
"""
