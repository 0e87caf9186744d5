"""Maps tools of every kind to function tools, for upstreams that know no other kind, and their calls back.

May import `translation.exact_numbers`, `translation.lowering`, `translation.representation` and `translation.errors`.
"""
