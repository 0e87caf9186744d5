"""What is kept between requests: responses, their items and events, conversations, completions, jobs."""
