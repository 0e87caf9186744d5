"""`python -m scripts.docs [--check]`."""

import sys

from scripts.docs import list_stale_pages, write_pages

if sys.argv[1:] not in ([], ["--check"]):
    sys.exit("usage: python -m scripts.docs [--check]")
if "--check" in sys.argv:
    if stale := list_stale_pages():
        sys.exit(f"stale: {', '.join(stale)}; run `make docs`")
else:
    write_pages()
