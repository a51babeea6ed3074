"""The runners of `bench_grid.py`: rlx and its peers behind one form, each called the way that suits it best."""

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from grid_cells import Array, Cell

import rlx
from rlx.runtime.weights import aligned

Call = Callable[[], Any]
Made = tuple[Call, Callable[[Any], Array]]  # a run, and its result as an array


def graph(cell: Cell) -> rlx.Graph:
    """The cell for rlx; weights are constants."""
    g = rlx.Graph("cell")
    values = {n: g.input(n, a.shape, a.dtype) for n, a in cell.inputs.items()}
    values |= {n: g.constant(a) for n, a in cell.constants().items()}
    g.output("y", cell.rlx(**values))
    return g


def onnx_model(cell: Cell, body: str) -> bytes:
    """A file with the inputs and weights of a cell around a graph body."""
    from onnx import TensorProto, numpy_helper, parser

    def port(name: str, dtype: Any, shape: Any) -> str:
        kind = TensorProto.DataType.Name(rlx.dtypes.as_dtype(dtype).onnx).lower()
        return f"{kind}[{','.join(map(str, shape))}] {name}"

    y = graph(cell).outputs["y"]
    ports = ", ".join(port(n, a.dtype, a.shape) for n, a in cell.inputs.items())
    model = parser.parse_model(f'<ir_version: 10, opset_import: ["": {cell.opset}, "com.microsoft": 1]> '
                               f"cell ({ports}) => ({port('y', y.dtype, y.shape)}) {{ {body} }}")
    model.graph.initializer.extend(numpy_helper.from_array(a, n) for n, a in cell.constants().items())
    return bytes(model.SerializeToString())


def run_rlx(cell: Cell, threads: int) -> list[Made]:
    """`run` of an executable with named arrays, into an array that is kept, as the others are given one.

    It begins at a cache line, as results of the others do; NumPy's arrays begin 16 bytes behind one.
    """
    exe, feeds = rlx.compile(graph(cell), rlx.CompileOptions(threads=threads)), cell.feeds()
    first = np.asarray(exe.run(feeds)[0])
    kept = {"y": aligned(first.nbytes).view(first.dtype)[: first.size].reshape(first.shape)}
    return [(lambda: exe.run(feeds, out=kept), lambda outs: np.asarray(outs[0]))]


def run_onnxruntime(cell: Cell, threads: int) -> list[Made]:
    """`run` of a session with named arrays and with a kept result, for each graph body that it accepts."""
    import onnxruntime as ort

    options = ort.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    options.log_severity_level = 4
    feeds = cell.feeds()

    def make(body: str) -> Made:
        session = ort.InferenceSession(onnx_model(cell, body), options, providers=["CPUExecutionProvider"])
        return lambda: session.run(None, feeds), lambda outs: np.asarray(outs[0])

    def make_bound(body: str) -> Made:
        session = ort.InferenceSession(onnx_model(cell, body), options, providers=["CPUExecutionProvider"])
        kept, binding = session.run(None, feeds)[0], session.io_binding()
        for name, array in feeds.items():
            binding.bind_cpu_input(name, array)
        binding.bind_output("y", "cpu", 0, kept.dtype, kept.shape, kept.ctypes.data)
        return lambda: session.run_with_iobinding(binding), lambda _: kept

    return [*accepted(make, cell.onnx), *accepted(make_bound, cell.onnx)]


def run_openvino(cell: Cell, threads: int) -> list[Made]:
    """`infer` of a request whose input tensors are set once, f32 throughout, one per graph body that it accepts."""
    import openvino as ov

    core = ov.Core()
    config = {"INFERENCE_NUM_THREADS": threads, "INFERENCE_PRECISION_HINT": "f32", "NUM_STREAMS": 1,
              "PERFORMANCE_HINT": "LATENCY"}

    def make(body: str) -> Made:
        request = core.compile_model(core.read_model(onnx_model(cell, body)), "CPU", config).create_infer_request()
        for name, array in cell.feeds().items():
            request.set_tensor(name, ov.Tensor(array, shared_memory=True))

        def call() -> Any:
            return request.infer(share_outputs=True)

        return call, lambda _: np.array(request.get_output_tensor(0).data)

    return accepted(make, cell.onnx)


def accepted(make: Callable[[str], Made], bodies: tuple[str, ...]) -> list[Made]:
    """What can be made of the bodies; the error of the last one if nothing can."""
    found, last = [], None
    for body in bodies:
        try:
            found.append(make(body))
        except Exception as error:
            last = error
    if not found and last is not None:
        raise last
    return found


def torch_module(cell: Cell, threads: int) -> tuple[Any, dict[str, Any]]:
    """A module whose weights are buffers, and the input tensors."""
    import torch

    torch.set_num_threads(threads)

    class Module(torch.nn.Module):  # type: ignore[misc]
        """The computation of the cell."""

        def __init__(self) -> None:
            super().__init__()
            for name, array in cell.constants().items():
                self.register_buffer(name, torch.from_numpy(array))

        def forward(self, **inputs: Any) -> Any:
            """Result of one run."""
            return cell.torch(torch, **inputs, **{name: getattr(self, name) for name in cell.weights})

    return Module().eval(), {n: torch.from_numpy(a) for n, a in cell.feeds().items()}


def without_gradients(function: Callable[..., Any], tensors: dict[str, Any]) -> list[Made]:
    """Calls of a function of tensors."""
    import torch

    torch.set_grad_enabled(False)
    return [(lambda: function(**tensors), lambda y: np.asarray(y.contiguous().numpy()))]


def run_torch(cell: Cell, threads: int) -> list[Made]:
    """The computation as it is written, without the call of a module."""
    import torch

    module, tensors = torch_module(cell, threads)
    held = tensors | {n: getattr(module, n) for n in cell.weights}
    return without_gradients(lambda **t: cell.torch(torch, **t), held)


def run_inductor(cell: Cell, threads: int) -> list[Made]:
    """`torch.compile` with constants frozen, so that it may pack weights."""
    import torch
    import torch._inductor.config as settings

    settings.freezing = True
    torch._dynamo.reset()
    module, tensors = torch_module(cell, threads)
    made = without_gradients(torch.compile(module, dynamic=False), tensors)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        made[0][0]()
    return made


def run_numpy(cell: Cell, threads: int) -> list[Made]:
    """NumPy or SciPy, where they have the computation."""
    if cell.numpy is None:
        raise NotImplementedError("not written")
    function, arrays = cell.numpy, cell.feeds() | cell.constants()
    return [(lambda: function(**arrays), np.asarray)]


PEERS: dict[str, Callable[[Cell, int], list[Made]]] = {
    "onnxruntime": run_onnxruntime,
    "openvino": run_openvino,
    "torch": run_torch,
    "inductor": run_inductor,
    "numpy": run_numpy,
}
