"""`python -m bench.engine`"""

import sys

from bench.engine.measurement import main

sys.exit(main())
