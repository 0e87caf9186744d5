"""Tools that the gateway runs itself: joins rounds of a model and of tools into one reply. No I/O.

May import `translation.hygiene`, `translation.parsers`, `translation.tools`, `translation.representation` and
`translation.errors`.
"""
