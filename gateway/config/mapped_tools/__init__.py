"""The configuration of tools of MCP servers that are run as a hosted tool, such as a web search.

May import `translation` and `gateway.config.yaml_file`.
"""
