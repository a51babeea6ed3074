"""The table of ops. ``ops.<name>(...)`` emits a node; `TABLE` has every row by name.

Every module of this package is a family, except those with an underscore and
the two that hold no rows; its `OpDef` objects are rows of the table.
"""

import importlib
import pkgutil

from rlx.ir.opdef import OpDef
from rlx.ops import fft as _fft
from rlx.ops import movement as _movement
from rlx.ops import view as _view
from rlx.ops.einsum import einsum as _einsum

TABLE: dict[str, OpDef] = {}
FAMILY: dict[str, str] = {}
for _info in pkgutil.iter_modules(__path__):
    if _info.name.startswith("_") or _info.name in ("indexing", "parse"):
        continue
    for _op in list(vars(importlib.import_module(f"rlx.ops.{_info.name}")).values()):
        if isinstance(_op, OpDef) and _op.name not in TABLE:
            TABLE[_op.name] = _op
            FAMILY[_op.name] = _op.family
globals().update(TABLE)

squeeze = _view.squeeze
unsqueeze = _view.unsqueeze
arange = _movement.arange
center_crop_pad = _movement.center_crop_pad
dft = _fft.dft
einsum = _einsum
fftn = _fft.fftn
split = _movement.split
stack = _movement.stack
unstack = _movement.unstack
window = _fft.window


def __getattr__(name: str) -> OpDef:
    if name in TABLE:  # registered by the user
        return TABLE[name]
    near: list[str] = []
    if not name.startswith("_"):
        from rlx.ops._nearest import nearest

        near = nearest(name, TABLE)
    hint = f"; the nearest are {', '.join(near)}" if near else ""
    raise AttributeError(f"no op {name!r} in rlx.ops{hint}; ops.TABLE lists all {len(TABLE)}")
