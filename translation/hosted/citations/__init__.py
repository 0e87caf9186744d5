"""Citations of what hosted tools found: the markers by which models cite, and the annotations that clients get.

May import `translation.representation`.
"""
