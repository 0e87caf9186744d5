"""Shares turns between the upstreams of a name: chooses one, repeats what failed, limits, and keeps their state.

May import `dataplane`, `gateway.config`, `gateway.errors`, `gateway.histograms`, `providers.errors`, `providers.base`,
`providers.config` and `translation`.
"""
