"""Environment variables: parsed strictly, in one place. `CompileOptions` decides; these give defaults."""

import os
from pathlib import Path

from rlx.errors import ConfigError


def isa() -> str | None:
    """`RLX_ISA`: cap on the ISA level (`baseline`, `avx2`, `avx512`)."""
    return os.environ.get("RLX_ISA") or None


def positive_int(name: str) -> int | None:
    """Value of an environment variable that must be a positive integer, or None."""
    text = os.environ.get(name)
    if not text:
        return None
    if not text.isdigit() or int(text) < 1:
        raise ConfigError(f"{name} must be a positive integer, got {text!r}")
    return int(text)


def cache_dir() -> Path:
    """`RLX_CACHE_DIR`, else `XDG_CACHE_HOME`/rlx, else ~/.cache/rlx."""
    own = os.environ.get("RLX_CACHE_DIR")
    if own:
        return Path(own)
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path(os.path.expanduser("~/.cache"))) / "rlx"


def tuned() -> bool:
    """`RLX_TUNED`: 0 ignores what `rlx tune` wrote (default 1)."""
    text = os.environ.get("RLX_TUNED") or "1"
    if text not in ("0", "1"):
        raise ConfigError(f"RLX_TUNED must be 0 or 1, got {text!r}")
    return text == "1"
