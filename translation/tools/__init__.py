"""Kinds of tools a chat upstream has no word for, carried on function tools and mapped back."""
