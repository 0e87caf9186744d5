"""Failures in the forms of the APIs that other vendors defined: a module for each, and the table of them.

May import what `gateway.http` may, and its module `headers`.
"""
