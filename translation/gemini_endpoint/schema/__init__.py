"""The shapes of requests of Gemini's API, and the one spelling that their fields get before they are checked.

May import `translation.validation` and what is below it.
"""
