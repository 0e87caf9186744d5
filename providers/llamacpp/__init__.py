"""llama.cpp inside the gateway: its server in a child process of ours, which nobody else can talk to."""
