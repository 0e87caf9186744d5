"""The shapes a request of the Responses and Conversations APIs may have, as TypedDicts that validation reads.

May import `translation.representation` and `translation.validation` only.
"""
