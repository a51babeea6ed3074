"""Environment variables: parsed strictly, in one place. `CompileOptions` decides; these give defaults."""

import os

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
