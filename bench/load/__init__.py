"""What a load consists of: its requests, the replies to them, and the process that sends it and checks the replies.

May import nothing else of the benchmark. The replies are built with `tests.upstream`.
"""
