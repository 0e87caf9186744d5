"""Wire formats in and out of one internal event stream. Pure: no I/O, clock, randomness or ids of its own.

May import no other package of the project.
"""
