"""Write a header with the digest of the files that decide what a program means to the kernels (run by meson)."""

import hashlib
import sys
from pathlib import Path


def main(target: str, *folders: str) -> None:
    """`#define RLX_SOURCES "..."` over all files of some folders."""
    digest = hashlib.sha256()
    for folder in folders:
        kinds = (".c", ".h", ".inc", ".def", ".pyx", ".pxi")
        for path in sorted(p for p in Path(folder).iterdir() if p.suffix in kinds):
            digest.update(path.name.encode() + b"\0" + path.read_bytes())
    Path(target).write_text(f'#define RLX_SOURCES "{digest.hexdigest()[:32]}"\n')


if __name__ == "__main__":
    main(*sys.argv[1:])
