"""One OpenMP thread per pytest worker, set before torch is imported."""

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")
