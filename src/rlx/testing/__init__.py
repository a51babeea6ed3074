"""Helpers for tests of rlx itself and of packages that add ops or kernels."""
