"""HTTP routes. A handler parses its request, calls the service, and builds the reply.

May import `gateway.service` and the packages below it; `providers` and `dataplane` only through them.
"""
