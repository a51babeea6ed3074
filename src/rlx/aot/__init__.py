"""Ahead-of-time files: what has been compiled, mapped from a file and run within milliseconds.

`container` is the file (header, check sums, parts), `tables` the programs in it as
integers, `verify` what is proved of them before they run, `save` and `load` the way
in and out. Nothing on the way in imports the compiler; what only a report or a
change needs is read when it is asked for.
"""
