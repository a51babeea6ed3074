"""Ops that the ONNX standard defines as functions of other ops.

The definition in the `onnx` package is inlined where there is no function of our
own for an op, or where that one leaves a case to it.
"""

from typing import TYPE_CHECKING, Any

import numpy as np
from onnx import FunctionProto, NodeProto, TypeProto, defs, helper

from rlx.ir.graph import Value
from rlx.onnx.steps import Slot
from rlx.onnx.tensors import TensorReader

if TYPE_CHECKING:
    from rlx.onnx.block import Block


def _schema(proto: NodeProto, version: int) -> Any:
    domain = "" if proto.domain == "ai.onnx" else proto.domain
    try:
        return defs.get_schema(proto.op_type, version, domain)
    except defs.SchemaError:
        return None


def has_definition(proto: NodeProto, version: int) -> bool:
    """Whether the standard defines the op as a function."""
    schema = _schema(proto, version)
    return schema is not None and (schema.has_function or schema.has_context_dependent_function)


def definition(proto: NodeProto, version: int, items: list[Any], opset: int) -> "Block | None":
    """The op's definition for operands of these types, None if there is none.

    Parameters
    ----------
    version : int
        Opset of the node's domain.
    items : list
        The operands, None for absent ones.
    opset : int
        Opset of the standard domain in the model.
    """
    from rlx.onnx.block import Reader

    schema = _schema(proto, version)
    if schema is None:
        return None
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
    return Reader(TensorReader(memoryview(b""), None)).function(found)


def with_attributes(proto: NodeProto, attributes: dict[str, Any]) -> NodeProto:
    """The node with the values of attributes in place of references to a function's attributes."""
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


def _type_of(item: Any) -> TypeProto:
    if isinstance(item, Value):
        return helper.make_tensor_type_proto(item.dtype.onnx, [d for d in item.shape if isinstance(d, int)])
    if isinstance(item, Slot) and item.type is not None:
        return helper.make_tensor_type_proto(item.type.dtype.onnx, item.shape)
    if isinstance(item, np.ndarray) and item.dtype != object:
        return helper.make_tensor_type_proto(helper.np_dtype_to_tensor_dtype(item.dtype), item.shape)
    if isinstance(item, list) and item:
        return helper.make_sequence_type_proto(_type_of(item[0]))
    return TypeProto()
