"""The frozen catalogue: hashes of its files, and what was amended since, with the reason.

    python -m benchmarks.faults.freeze            # what has changed
    python -m benchmarks.faults.freeze --write    # hashes of files that are not listed yet

A file of the catalogue is not shaped after what the doctor finds. Where one has to change (it was
wrong, a library moved), `AMENDED.txt` gets a line: the new hash, the file, and why.
"""

from __future__ import annotations

import hashlib
import sys
from pathlib import Path

HERE = Path(__file__).parent
FROZEN, AMENDED = HERE / "FROZEN.txt", HERE / "AMENDED.txt"


def current() -> dict[str, str]:
    """sha256 of every fault, host and seam, by path."""
    paths = [*HERE.glob("catalogue/*/*.py"), *HERE.glob("hosts/**/*.py"), HERE / "seams.py"]
    return {
        path.relative_to(HERE).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(paths)
    }


def listed(path: Path) -> dict[str, str]:
    """Hashes by file; later lines stand for earlier ones. Lines that begin with # are comments."""
    if not path.is_file():
        return {}
    lines = path.read_text(encoding="utf-8").splitlines()
    fields = [line.split(maxsplit=2) for line in lines if line and not line.startswith("#")]
    return {field[1]: field[0] for field in fields}


def changes() -> list[str]:
    """A sentence for every file that is neither as frozen nor as amended with a reason."""
    frozen, now = listed(FROZEN) | listed(AMENDED), current()
    found = []
    for path, digest in now.items():
        if path not in frozen:
            found.append(f"{path} is new: python -m benchmarks.faults.freeze --write lists it")
        elif frozen[path] != digest:
            found.append(
                f"{path} was changed after freezing: add to {AMENDED.name} the line\n"
                f"  {digest} {path} WHY"
            )
    for path in sorted(set(frozen) - set(now)):
        if frozen[path] != "removed":
            found.append(f"{path} is gone: add to {AMENDED.name} the line\n  removed {path} WHY")
    return found


def unexplained() -> list[str]:
    """Lines of the amendments without a reason."""
    if not AMENDED.is_file():
        return []
    lines = AMENDED.read_text(encoding="utf-8").splitlines()
    return [
        line
        for line in lines
        if line and not line.startswith("#") and len(line.split(maxsplit=2)) < 3
    ]


def main() -> int:
    if "--write" in sys.argv:
        known = listed(FROZEN)
        new = {path: digest for path, digest in current().items() if path not in known}
        with FROZEN.open("a", encoding="utf-8") as file:
            file.writelines(f"{digest} {path}\n" for path, digest in new.items())
        print(f"{len(new)} files listed")
    found = changes()
    print("\n".join(found) or "nothing has changed since it was frozen")
    return bool(found)


if __name__ == "__main__":
    sys.exit(main())
