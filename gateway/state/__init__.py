"""State that outlives a request: responses, their items and event logs, conversations, chat completions, jobs."""
