"""Paths that are only relayed: embeddings, audio, images and others, with their bodies and replies as bytes.

May import `gateway.upstreams`, `gateway.replies`, `gateway.http`, `gateway.logs`, `gateway.error_replies`,
`gateway.errors`, `dataplane`, `providers.base`, `providers.relayed_paths`, `providers.errors`, `providers.new_id` and
`translation`.
"""
