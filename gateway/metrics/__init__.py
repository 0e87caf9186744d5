"""Figures for Prometheus: counts requests and attempts, adds up all workers, and serves `/metrics`.

The home page shows some of them too. May import `gateway.service`, `gateway.replies`, `gateway.http`,
`gateway.upstreams`, `gateway.config`, `gateway.pages`, `gateway.logs`, `gateway.errors`, `gateway.histograms`,
`gateway.version` and `translation`.
"""
