"""Benchmarks of rlx for asv; `../README.md` says how to run them."""
