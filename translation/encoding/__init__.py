"""What the encoders and collectors of client dialects share: the order of a reply, templates of deltas, whole replies.

May import `translation.representation` only.
"""
