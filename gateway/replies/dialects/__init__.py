"""Replies of the APIs that other vendors defined: a row of translators for each, and what only its replies have.

May import what `gateway.replies` may, and the modules beside this package.
"""
