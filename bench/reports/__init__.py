"""Renders what a run measured: tables, the files of results, the comparison with the baseline, and the picture.

May import `bench.scenarios`, and what that may import.
"""
