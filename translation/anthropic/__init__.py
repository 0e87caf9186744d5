"""The Messages API of Anthropic: turns in its words, and its replies as events."""
