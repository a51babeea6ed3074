"""Model files, if there are any: `RLX_BENCH_MODELS` names a folder of ONNX files."""

import os
from pathlib import Path
from typing import ClassVar

import rlx
from rlx.cli.session import make_inputs

FOLDER = os.environ.get("RLX_BENCH_MODELS")


class Models:
    """Each file once, on made-up inputs, one thread."""

    params: ClassVar[list[str]] = sorted(p.name for p in Path(FOLDER).glob("*.onnx")) if FOLDER else ["none"]
    param_names: ClassVar[list[str]] = ["model"]
    timeout = 300

    def setup(self, name: str) -> None:
        """Load, make inputs, run once."""
        if FOLDER is None:
            raise NotImplementedError("RLX_BENCH_MODELS is not set")
        try:
            self.model = rlx.load(Path(FOLDER) / name, threads=1)
            self.inputs, _ = make_inputs(self.model.signature.inputs, [], [])
            self.model.run(self.inputs)
        except rlx.RlxError as error:
            raise NotImplementedError(str(error)) from error

    def time_run(self, name: str) -> None:
        """One run."""
        self.model.run(self.inputs)

    def time_onnxruntime(self, name: str) -> None:
        """The same in ONNX Runtime."""
        import onnxruntime

        if not hasattr(self, "other"):
            options = onnxruntime.SessionOptions()
            options.intra_op_num_threads = 1
            options.log_severity_level = 3
            self.other = onnxruntime.InferenceSession(str(Path(FOLDER or "") / name), options,
                                                      providers=["CPUExecutionProvider"])
        self.other.run(None, self.inputs)

    def time_load(self, name: str) -> None:
        """Reading and importing the file."""
        rlx.load(Path(FOLDER or "") / name, threads=1)

    def track_arena_bytes(self, name: str) -> int:
        """Scratch memory."""
        return self.model.memory_report().arena
