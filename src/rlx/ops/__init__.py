"""The table of ops. ``ops.<name>(...)`` emits a node; `TABLE` has every row by name."""

import importlib

from rlx.ir.opdef import OpDef
from rlx.ops import movement as _movement
from rlx.ops import view as _view

# Modules of this package that hold rows; one a line, so that branches merge.
_FAMILIES = (
    "unary",
    "binary",
    "view",
    "matmul",
    "rnn",
    "control",
    "movement",
    "reduce",
    "conv",
    "quant",
    "attention",
    "fused",
)

TABLE: dict[str, OpDef] = {}
FAMILY: dict[str, str] = {}
for _family in _FAMILIES:
    for _op in list(vars(importlib.import_module(f"rlx.ops.{_family}")).values()):
        if isinstance(_op, OpDef) and _op.name not in TABLE:
            TABLE[_op.name] = _op
            FAMILY[_op.name] = _family
globals().update(TABLE)

squeeze = _view.squeeze
unsqueeze = _view.unsqueeze
arange = _movement.arange
split = _movement.split
stack = _movement.stack
unstack = _movement.unstack


def __getattr__(name: str) -> OpDef:
    raise AttributeError(f"no op {name!r} in rlx.ops; ops.TABLE lists all {len(TABLE)}")
