"""The demo model: a tiny model on an embedded llama.cpp. Turns that it was not trained for get a fixed answer.

May import `providers.llamacpp`, `providers.scripted`, what those may import, and `translation`.
"""
