"""Engines that take a prompt as token ids and go on with it, and what is built on them."""
