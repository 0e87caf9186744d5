"""What the gateway costs: CPU, delay and memory, each beside a direct run and an nginx that only forwards."""
