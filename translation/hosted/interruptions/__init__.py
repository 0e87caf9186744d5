"""Loops that were interrupted: what is saved of them, what was sent, and how another process goes on. No I/O.

May import the values of `translation.hosted` (calls, outcomes, tools) and the packages below it, but not the loop.
"""
