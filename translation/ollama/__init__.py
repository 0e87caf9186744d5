"""Ollama's own API: turns in its words, and its replies as events."""
