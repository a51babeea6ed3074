"""rlx: compile a tensor graph once, run it on the CPU with almost no overhead.

Names other than element types are loaded when first used, so that importing
the package stays cheap.
"""

import importlib
from typing import TYPE_CHECKING, Any

from rlx import startup as _startup

_startup.install(__path__[0])

from rlx.collector import collector_paused as _collector_paused  # noqa: E402

with _collector_paused():
    import rlx.dtypes as _dtypes
    import rlx.forking  # noqa: F401 - forks wait for imports from here on

__version__ = "0.1.0"

if TYPE_CHECKING:
    from rlx import hir as hir
    from rlx import ops as ops
    from rlx.backend import Backend as Backend
    from rlx.backend import Session as Session
    from rlx.backend import compile as compile
    from rlx.backend import compile_lir as compile_lir
    from rlx.custom import get_include as get_include
    from rlx.custom import register_op as register_op
    from rlx.custom import registered_ops as registered_ops
    from rlx.custom import unregister_op as unregister_op
    from rlx.dtypes import DType as DType
    from rlx.dtypes import bf16 as bf16
    from rlx.dtypes import bool_ as bool_
    from rlx.dtypes import c64 as c64
    from rlx.dtypes import c128 as c128
    from rlx.dtypes import f16 as f16
    from rlx.dtypes import f32 as f32
    from rlx.dtypes import f64 as f64
    from rlx.dtypes import i8 as i8
    from rlx.dtypes import i16 as i16
    from rlx.dtypes import i32 as i32
    from rlx.dtypes import i64 as i64
    from rlx.dtypes import u8 as u8
    from rlx.dtypes import u16 as u16
    from rlx.dtypes import u32 as u32
    from rlx.dtypes import u64 as u64
    from rlx.errors import BindingError as BindingError
    from rlx.errors import BindingTypeError as BindingTypeError
    from rlx.errors import CancelledError as CancelledError
    from rlx.errors import ConfigError as ConfigError
    from rlx.errors import DivisionExecutionError as DivisionExecutionError
    from rlx.errors import ExecutionError as ExecutionError
    from rlx.errors import FileError as FileError
    from rlx.errors import FormatError as FormatError
    from rlx.errors import GraphError as GraphError
    from rlx.errors import IndexExecutionError as IndexExecutionError
    from rlx.errors import LegalizeError as LegalizeError
    from rlx.errors import LoweringError as LoweringError
    from rlx.errors import MissingFileError as MissingFileError
    from rlx.errors import PassError as PassError
    from rlx.errors import RlxError as RlxError
    from rlx.errors import SizeError as SizeError
    from rlx.errors import TypeRuleError as TypeRuleError
    from rlx.errors import UnknownNameError as UnknownNameError
    from rlx.errors import UnsupportedOpError as UnsupportedOpError
    from rlx.gradients import grad as grad
    from rlx.gradients import vjp as vjp
    from rlx.ir.graph import Graph as Graph
    from rlx.ir.graph import Value as Value
    from rlx.ir.opdef import Attr as Attr
    from rlx.ir.opdef import Sample as Sample
    from rlx.ir.types import TensorType as TensorType
    from rlx.loading import load as load
    from rlx.options import CompileOptions as CompileOptions
    from rlx.options import RngOptions as RngOptions
    from rlx.passes import Pass as Pass
    from rlx.passes import Pipeline as Pipeline
    from rlx.passes import default_pipeline as default_pipeline
    from rlx.passes.precision import PrecisionPolicy as PrecisionPolicy
    from rlx.runtime.buckets import BucketedCompileCache as BucketedCompileCache
    from rlx.runtime.buckets import CompileCache as CompileCache
    from rlx.runtime.buckets import DynamicDimCompileCache as DynamicDimCompileCache
    from rlx.runtime.buckets import PaddedModel as PaddedModel
    from rlx.runtime.buckets import power_of_two_ladder as power_of_two_ladder
    from rlx.runtime.executable import CompiledGraph as CompiledGraph
    from rlx.runtime.interchange import from_dlpack as from_dlpack
    from rlx.runtime.interchange import to_dlpack as to_dlpack
    from rlx.runtime.manifest import IoDtypeManifest as IoDtypeManifest
    from rlx.runtime.settings import RuntimeConfig as RuntimeConfig
    from rlx.runtime.state import HandleState as HandleState
    from rlx.stages import GraphModule as GraphModule
    from rlx.stages import LirModule as LirModule

_DTYPES = ("f64", "f32", "f16", "bf16", "i8", "i16", "i32", "i64", "u8", "u16", "u32", "u64",
           "bool_", "c64", "c128", "f8e4m3fn", "f8e4m3fnuz", "f8e5m2", "f8e5m2fnuz", "DType")
_ERRORS = ("RlxError", "GraphError", "TypeRuleError", "SizeError", "LegalizeError", "PassError", "LoweringError",
           "BindingError", "UnknownNameError", "BindingTypeError", "ExecutionError", "CancelledError",
           "DivisionExecutionError", "IndexExecutionError", "FormatError", "FileError", "MissingFileError",
           "UnsupportedOpError", "ConfigError")
_WHERE = {
    **dict.fromkeys(_DTYPES, "rlx.dtypes"),
    **dict.fromkeys(_ERRORS, "rlx.errors"),
    "Graph": "rlx.ir.graph",
    "Value": "rlx.ir.graph",
    "CompileOptions": "rlx.options",
    "RngOptions": "rlx.options",
    "Pass": "rlx.passes",
    "Pipeline": "rlx.passes",
    "default_pipeline": "rlx.passes",
    "PrecisionPolicy": "rlx.passes.precision",
    "CompiledGraph": "rlx.runtime.executable",
    "IoDtypeManifest": "rlx.runtime.manifest",
    "HandleState": "rlx.runtime.state",
    "from_dlpack": "rlx.runtime.interchange",
    "to_dlpack": "rlx.runtime.interchange",
    "CompileCache": "rlx.runtime.buckets",
    "BucketedCompileCache": "rlx.runtime.buckets",
    "DynamicDimCompileCache": "rlx.runtime.buckets",
    "PaddedModel": "rlx.runtime.buckets",
    "power_of_two_ladder": "rlx.runtime.buckets",
    "Backend": "rlx.backend",
    "Session": "rlx.backend",
    "compile": "rlx.backend",
    "compile_lir": "rlx.backend",
    "register_op": "rlx.custom",
    "registered_ops": "rlx.custom",
    "unregister_op": "rlx.custom",
    "get_include": "rlx.custom",
    "grad": "rlx.gradients",
    "vjp": "rlx.gradients",
    "Attr": "rlx.ir.opdef",
    "Sample": "rlx.ir.opdef",
    "TensorType": "rlx.ir.types",
    "GraphModule": "rlx.stages",
    "LirModule": "rlx.stages",
    "RuntimeConfig": "rlx.runtime.settings",
    "show_config": "rlx.showconfig",
    "load": "rlx.loading",
}
_MODULES = ("ops", "hir", "onnx", "dtypes", "errors", "testing")

__all__ = [*_WHERE, *_MODULES, "__version__"]


globals().update({_name: getattr(_dtypes, _name) for _name in _DTYPES})


def __getattr__(name: str) -> Any:
    if name in _WHERE:
        value = getattr(importlib.import_module(_WHERE[name]), name)
        globals()[name] = value
        return value
    if name in _MODULES:
        return importlib.import_module(f"rlx.{name}")
    raise AttributeError(f"module 'rlx' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
