"""The APIs that clients may use: a folder for each, with what only that API needs, and the table of them.

The folders know nothing of each other. May import `gateway.routes` and the packages
below it.
"""
