"""`python -m bench.fleet`"""

import sys

from bench.fleet.measurement import main

sys.exit(main())
