"""The command `responses-gateway` and its subcommands. Nothing imports it but `gateway.__main__`.

May import `gateway`, `providers.base`, `providers.registry` and `translation`.
"""
