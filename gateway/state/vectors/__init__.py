"""Stores vector stores in SQL: their files, the leases of their indexing, their chunks, and the index of terms.

May import `dataplane`, `gateway.errors`, `gateway.retrieval`, `gateway.state.database`, `gateway.state.records`,
`gateway.state.file_records`, `gateway.state.vector_records`, `gateway.state.row_values`, `gateway.state.values` and
`translation`.
"""
