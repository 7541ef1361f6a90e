"""Many files through one model by many workers: restartable, a line out for each line in.

Files are cut into parts of whole chunks (`ledger.py`), so that each line is worked on in the
company it would have without workers; a worker (`worker.py`) writes its part whole or not at all;
parts become files in order (`ledger.py`). Who runs the workers (`on_ray.py`) sees numbers of parts
and no text.
"""

from gnomon.api.bulk.on_ray import OnRay
from gnomon.api.bulk.run import BulkReport, Listener, bulk

__all__ = ["BulkReport", "Listener", "OnRay", "bulk"]
