"""Compiled code: the interpreter, the CPU probe and one kernel module per ISA level."""
