"""Files that clients upload: reads their forms, stores them within the quotas of owners, and sends them.

May import `gateway.blobs`, `gateway.config`, `gateway.errors`, `gateway.http`, `gateway.logs`, `gateway.state`,
`dataplane`, `providers.new_id` and `translation`.
"""
