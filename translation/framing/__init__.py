"""Splits byte streams into payloads and writes them: server-sent events and newline-delimited JSON.

May import `translation.errors`, `translation.exact_numbers`.
"""
