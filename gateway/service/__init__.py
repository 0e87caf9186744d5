"""The operations that routes call: accepts and plans requests, and produces replies; also models and contexts.

May import `gateway.files`, `gateway.vector_stores`, `gateway.relayed_paths`, `gateway.jobs`, `gateway.planning`,
`gateway.tools`, `gateway.tools.operator_servers`, `gateway.blobs`, `gateway.replies`, `gateway.http`,
`gateway.state`, `gateway.retrieval`, `gateway.upstreams`, `gateway.config`, `gateway.sealing`, `gateway.histograms`,
`gateway.logs`, `gateway.error_replies`, `gateway.errors`, `dataplane`, `providers.base`, `providers.config`,
`providers.engine_checks`, `providers.errors`, `providers.new_id`, `providers.redaction`, `providers.registry`
and `translation`.
"""
