"""gpt-oss behind a llama-server, asked in tokens: prompts and replies are Harmony, told from text by their tokens."""
