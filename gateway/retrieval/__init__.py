"""Cuts texts into chunks, turns them into index terms, filters and scores chunks; parses files into texts.

It knows neither files nor stores of files: what it gets are texts, terms and attributes.
May import `translation`.
"""
