"""If, Loop, Scan: decided while importing, unrolled, or run by the host."""
