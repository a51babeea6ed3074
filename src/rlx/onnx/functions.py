"""Ops that the ONNX standard defines as functions of other ops.

The definition in the `onnx` package is inlined where there is no function of our
own for an op, or where that one leaves a case to it. That package is needed for nothing
else, and is not loaded before.
"""

from typing import TYPE_CHECKING, Any

import numpy as np

from rlx.errors import UnsupportedOpError
from rlx.ir.graph import Value
from rlx.onnx.messages import read_function
from rlx.onnx.steps import Slot
from rlx.onnx.tensors import TensorReader

if TYPE_CHECKING:
    from rlx.onnx.block import Block, NodeDef


def _schema(node: "NodeDef") -> Any:
    try:
        from onnx import defs
    except ModuleNotFoundError:
        raise UnsupportedOpError(
            f"{node.place}: the package onnx must be installed to look for a definition of this op, got none"
            "\nhint: pip install 'rlx[onnx]'"
        ) from None
    try:
        return defs.get_schema(node.op, node.version, node.domain)
    except defs.SchemaError:
        return None


def has_definition(node: "NodeDef") -> bool:
    """Whether the standard defines the op as a function."""
    schema = _schema(node) if node.raw else None
    return schema is not None and (schema.has_function or schema.has_context_dependent_function)


def in_reference(node: "NodeDef") -> bool:
    """Whether the reference implementation of the `onnx` package has the op."""
    from rlx.onnx import reference_ops  # not loaded for ordinary models

    return reference_ops.find(node) is not None


def definition(node: "NodeDef", attributes: dict[str, Any], items: list[Any], opset: int | None) -> "Block | None":
    """The op's definition for operands of these types, None if there is none.

    Parameters
    ----------
    attributes : dict
        Values for references to attributes of the function that the node is part of.
    items : list
        The operands, None for absent ones.
    opset : int, optional
        Opset of the standard domain in the model; by default the newest.
    """
    from rlx.onnx.block import Reader

    schema = _schema(node) if node.raw else None
    if schema is None:
        return None
    from onnx import FunctionProto, NodeProto, defs, helper

    proto = NodeProto.FromString(node.raw)
    if node.refs:
        proto = with_attributes(proto, attributes)
    opset = opset or defs.onnx_opset_version()
    found = None
    if schema.has_context_dependent_function:
        types = [_type_of(i).SerializeToString() for i in items]
        for known in _candidates(schema.context_dependent_function_opset_versions, opset):
            raw = schema.get_context_dependent_function_with_opset_version(known, proto.SerializeToString(), types)
            if raw:
                found = FunctionProto()
                found.ParseFromString(raw)
                break
    if found is None and schema.has_function:
        for known in _candidates(schema.function_opset_versions, opset):
            found = schema.get_function_with_opset_version(known)
            break
    if found is None:
        return None
    if isinstance(found, bytes):
        raw = found
        found = FunctionProto()
        found.ParseFromString(raw)
    if all(o.domain not in ("", "ai.onnx") for o in found.opset_import):
        found.opset_import.extend([helper.make_opsetid("", opset)])
    for name, attribute in schema.attributes.items():
        known_default = attribute.default_value
        if known_default.name and all(a.name != name for a in found.attribute_proto):
            found.attribute_proto.append(known_default)
    buffer = memoryview(found.SerializeToString())
    return Reader(TensorReader(buffer, None)).function(read_function(buffer))


def with_attributes(proto: Any, attributes: dict[str, Any]) -> Any:
    """The node with the values of attributes in place of references to a function's attributes."""
    from onnx import NodeProto, helper

    result = NodeProto()
    result.CopyFrom(proto)
    del result.attribute[:]
    result.attribute.extend(a for a in proto.attribute if not a.ref_attr_name)
    for a in proto.attribute:
        if a.ref_attr_name and a.name in attributes:
            result.attribute.append(helper.make_attribute(a.name, attributes[a.name]))
    return result


def _candidates(versions: list[int], opset: int) -> list[int]:
    """Versions not above the opset, newest first; else all, oldest first."""
    return sorted((v for v in versions if v <= opset), reverse=True) or sorted(versions)


def _type_of(item: Any) -> Any:
    from onnx import TypeProto, helper

    if isinstance(item, Value):
        return helper.make_tensor_type_proto(item.dtype.onnx, [d for d in item.shape if isinstance(d, int)])
    if isinstance(item, Slot) and item.type is not None:
        return helper.make_tensor_type_proto(item.type.dtype.onnx, item.shape)
    if isinstance(item, np.ndarray) and item.dtype != object:
        return helper.make_tensor_type_proto(helper.np_dtype_to_tensor_dtype(item.dtype), item.shape)
    if isinstance(item, list) and item:
        return helper.make_sequence_type_proto(_type_of(item[0]))
    return TypeProto()
