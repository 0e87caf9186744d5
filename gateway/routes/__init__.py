"""HTTP routes: a handler reads what it needs, asks the service, and answers."""
