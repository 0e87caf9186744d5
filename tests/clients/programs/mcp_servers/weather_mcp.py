"""An MCP server on standard input and output with a tool that the tiny model calls."""

from mcp.server.mcpserver import MCPServer

server = MCPServer("weather")


@server.tool(structured_output=False)
def get_weather(city: str) -> str:
    """Get the weather in a city."""
    return "rainy, 10 C"


if __name__ == "__main__":
    server.run()
