"""Turns the bytes of a file into its text: in a child process with bounds, because what a file holds is not to be
trusted.

Nothing here is imported by a server process but `parser_pool` and `parsed_text`. May import `gateway.retrieval`.
"""
