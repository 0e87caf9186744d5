"""What the gateway costs: CPU, delay and memory, each beside a direct run and an nginx that only forwards.

`run` is the entry of `python -m bench`. May import the gateway and `tests`; nothing of the product imports it. Its
packages are layers, see pyproject.toml.
"""
