"""The Responses API for clients: requests become turns (lift), events become the stream and the response (encode).

May import `translation.responses` and the packages below the dialects; no other dialect.
"""
