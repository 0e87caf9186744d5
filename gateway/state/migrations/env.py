"""The script that Alembic runs. It migrates on the connection and in the transaction that the caller provides."""

from alembic import context

from gateway.state.database.tables import metadata

context.configure(connection=context.config.attributes["connection"], target_metadata=metadata)
with context.begin_transaction():
    context.run_migrations()
