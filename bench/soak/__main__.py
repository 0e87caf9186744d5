"""`python -m bench.soak`"""

import sys

from bench.soak.measurement import main

sys.exit(main())
