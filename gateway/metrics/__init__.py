"""Figures for Prometheus: counts requests and attempts, adds up all workers, and serves `/metrics`.

May import `gateway.service`, `gateway.replies`, `gateway.http`, `gateway.upstreams`, `gateway.config`, `gateway.logs`,
`gateway.errors`, `gateway.histograms`, `gateway.version` and `translation`.
"""
