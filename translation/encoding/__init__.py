"""Shared parts of the encoders and collectors of client dialects: the order of a reply, templates, whole replies.

May import `translation.representation`.
"""
