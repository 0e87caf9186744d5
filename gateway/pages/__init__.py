"""HTML pages for people, built from plain values: the server's home page, its API page, and what pages share.

May import no other package of the project.
"""
