"""One adapter per kind of upstream, behind one protocol (`providers/base.py`)."""
