"""The demo model: a tiny model on an embedded llama.cpp, which knows what it cannot answer.

May import `providers.llamacpp`, `providers.scripted`, what those may import, and `translation`.
"""
