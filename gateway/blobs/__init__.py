"""The bytes of stored files: a folder, or a bucket with the API of S3. A blob is named by an id of the gateway's own.

May import `dataplane.sharing`, `gateway.config` and `gateway.errors`.
"""
