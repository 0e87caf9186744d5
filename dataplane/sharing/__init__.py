"""Shares what one process has among the owners of requests: places, threads, iterations of the event loop.

May import nothing of the project.
"""
