"""HTML pages for people, built from plain values: the server's home page, its API page, and shared parts.

May import no other package of the project.
"""
