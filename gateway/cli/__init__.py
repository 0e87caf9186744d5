"""The command `responses-gateway` and its subcommands.

May import every other package of `gateway`; nothing imports it but `gateway.__main__`.
"""
