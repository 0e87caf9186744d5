"""Chat Completions for clients: requests become turns (schema, lift), events become chunks and completions (encode).

May import `translation.chat` and the packages below the dialects; no other dialect.
"""
