"""Cuts texts into chunks, turns them into index terms, filters and scores chunks; parses files into texts.

It works on texts, terms and attributes, and knows nothing of stored files and of vector stores. May import
`translation`.
"""
