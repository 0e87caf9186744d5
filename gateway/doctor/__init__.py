"""Holds the configured models to what the gateway says they can do, through the gateway itself."""
