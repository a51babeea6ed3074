"""IoDtypeManifest: the element types that a caller meets."""

from collections.abc import Sequence

from rlx.dtypes import DType
from rlx.errors import PassError, UnknownNameError
from rlx.ir.graph import Graph
from rlx.lower.program import Port
from rlx.records import record


@record(frozen=True)
class IoDtypeManifest:
    """Element types of inputs, parameters and outputs, by name and in order.

    They are those of the graph as it was written: no pass changes what is taken or given.
    """

    inputs: dict[str, DType]
    params: dict[str, DType]
    outputs: dict[str, DType]

    @staticmethod
    def of(graph: Graph) -> "IoDtypeManifest":
        """Of a graph."""
        return IoDtypeManifest(
            {v.node.name: v.dtype for v in graph.inputs},
            {v.node.name: v.dtype for v in graph.params},
            {name: v.dtype for name, v in graph.outputs.items()},
        )

    def output_dtype(self, output: int | str) -> DType:
        """Element type of an output, by position or name.

        Raises
        ------
        UnknownNameError
            There is no such output.
        """
        try:
            return self.outputs[output] if isinstance(output, str) else list(self.outputs.values())[output]
        except (KeyError, IndexError, TypeError):
            raise UnknownNameError(f"output_dtype: must be given an output's name, one of {list(self.outputs)}, or its "
                                   f"position, got {output!r}") from None

    def check(self, inputs: Sequence[Port], outputs: Sequence[Port], graph: str) -> None:
        """Refuse a program that takes or gives other types.

        Raises
        ------
        PassError
            Naming the first one.
        """
        if [p.name for p in outputs] != list(self.outputs):  # a stage
            return
        for known, ports in (({**self.inputs, **self.params}, inputs), (self.outputs, outputs)):
            for port in ports:
                if port.name in known and known[port.name] != port.dtype:
                    raise PassError(f"graph {graph!r}: passes must keep the type of {port.name!r}, "
                                    f"{known[port.name]}, got {port.dtype}")

    def __str__(self) -> str:
        parts = (("inputs", self.inputs), ("params", self.params), ("outputs", self.outputs))
        return "\n".join(f"{k}: " + ", ".join(f"{n}: {d}" for n, d in v.items()) for k, v in parts if v)
