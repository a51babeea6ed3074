"""The kernels of one ISA level. Compiled once per level, under the level's name.

Opened only after the CPU probe said that the level's instructions exist.
"""

from cpython.pycapsule cimport PyCapsule_New

from rlx._kernels.abi cimport rlx_families


cdef extern from "families.h":
    const rlx_families rlx_all_families

FAMILIES = PyCapsule_New(<void *> &rlx_all_families, b"rlx.families", NULL)
LEVEL = rlx_all_families.level.decode()
SOURCES = rlx_all_families.sources.decode()
