"""Models of others: Hugging Face folders in and out. No code of theirs is ever run.

One file per architecture says what its config.json and its tensors are in our terms; import reads
that forwards, export backwards, so that what came goes back bit for bit.
"""

from gnomon.interop.exporting import Exported, export_model
from gnomon.interop.importing import Imported, import_model
from gnomon.interop.registry import ARCHITECTURES

__all__ = ["ARCHITECTURES", "Exported", "Imported", "export_model", "import_model"]
