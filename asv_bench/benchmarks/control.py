"""Controls: NumPy alone. No change of rlx can touch them; when they move, the machine moved."""

import numpy as np


class Control:
    """Processor, memory, interpreter."""

    def setup(self) -> None:
        """Data."""
        rng = np.random.default_rng(0)
        self.small = rng.standard_normal((128, 128)).astype(np.float32)
        self.large = rng.standard_normal(1 << 21).astype(np.float32)

    def time_product(self) -> None:
        """Arithmetic that stays in the cache."""
        self.small @ self.small

    def time_stream(self) -> None:
        """Memory."""
        self.large.sum()

    def time_interpreter(self) -> None:
        """Python itself."""
        total = 0
        for i in range(2000):
            total += i
