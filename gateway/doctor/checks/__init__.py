"""The checks of `doctor`, one function per feature, and the HTTP client and readers that they share.

May import `gateway.config`, `gateway.errors` and `gateway.replies.loss_header`; no other package of `gateway`.
"""
