"""HTTP routes. A handler parses its request, calls the service, and builds the reply."""
