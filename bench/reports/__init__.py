"""Renders the figures of a run: tables, the files of results, the comparison with the baseline, and the plot.

May import `bench.scenarios`, and what that may import.
"""
