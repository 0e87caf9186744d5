"""Measures what the gateway costs: CPU, delay and memory, each beside a direct run and an nginx that only forwards.

`run` is the entry of `python -m bench`. May import `dataplane`; its packages may also import the rest of the product
and `tests`. Nothing of the product imports the benchmark. Its packages are layers, see pyproject.toml.
"""
