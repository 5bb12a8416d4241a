"""For all tests: one thread of linear algebra, here and in what they start, as the daemon itself has it."""

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
