"""`python -m bench.in_process`"""

import sys

from bench.in_process.request_steps import main

sys.exit(main())
