"""An MCP server on standard input and output with one tool."""

from mcp.server.mcpserver import MCPServer

server = MCPServer("adder")


@server.tool()
def add_numbers(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


if __name__ == "__main__":
    server.run()
