"""One ONNX node run by ONNX Runtime: an independent reference for kernels."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy.typing as npt
import onnx
import onnxruntime
from onnx import helper


def session(
    op: str,
    inputs: Sequence[npt.NDArray[Any] | None],
    n_out: int | Sequence[str],
    *,
    domain: str = "",
    opset: int = 18,
    out_types: Sequence[int] | None = None,
    threads: int = 1,
    **attrs: Any,
) -> Callable[[], list[npt.NDArray[Any]]]:
    """Return a function that runs the node on `inputs`; None is an absent input."""
    names = ["" if x is None else f"i{k}" for k, x in enumerate(inputs)]
    outs = [f"o{k}" for k in range(n_out)] if isinstance(n_out, int) else list(n_out)
    types = out_types or [onnx.TensorProto.FLOAT] * len(outs)
    node = helper.make_node(op, names, outs, domain=domain, **attrs)
    infos = [
        helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(x.dtype), x.shape)
        for n, x in zip(names, inputs, strict=True)
        if x is not None
    ]
    graph = helper.make_graph(
        [node], "g", infos,
        [helper.make_tensor_value_info(n, t, None) for n, t in zip(outs, types, strict=True) if n],
    )
    imports = [helper.make_opsetid(domain, opset)]
    if domain:
        imports.append(helper.make_opsetid("", 18))
    model = helper.make_model(graph, opset_imports=imports, ir_version=9)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    run = onnxruntime.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    feed: Mapping[str, npt.NDArray[Any]] = {
        n: x for n, x in zip(names, inputs, strict=True) if x is not None
    }
    return lambda: run.run(None, feed)
