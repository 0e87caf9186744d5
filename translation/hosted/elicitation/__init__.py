"""Elicitation: tools that ask the user for input in the middle of a call. Checks the questions and the answers.

No I/O. May import `translation.hosted.bounds`, `translation.hosted.schema_checks`, `translation.tools` and
`translation.representation`.
"""
