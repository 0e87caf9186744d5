"""Reads, checks and completes the operator's configuration. The only package that reads the environment.

May import `providers` (configuration types and engine checks) and `translation`; no other package of `gateway`.
"""
