"""OpenAI's Responses format, as an endpoint (schema, lift, encode) and as an upstream (lower, decode, relay)."""
