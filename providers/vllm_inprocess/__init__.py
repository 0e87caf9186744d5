"""vLLM inside this process: its own asynchronous engine, without HTTP in between."""
