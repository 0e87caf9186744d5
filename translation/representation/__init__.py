"""The internal representation: a request as a `Turn`, a reply as twelve events, and the grammar the events obey.

May import `translation.errors`, `translation.text_forms` and `translation.validation`. Every other package of
`translation` builds on it.
"""
