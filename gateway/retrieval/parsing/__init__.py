"""Turns the bytes of a file into its text. It runs in a child process with limits, because the content of a file is not
trusted.

Server processes import only `parser_pool` and `parsed_text` of it. May import `gateway.retrieval`.
"""
