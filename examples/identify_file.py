"""What kind of file is this? Google's Magika model (Apache-2.0), run by rlx alone.

    python examples/identify_file.py models/magika-*.whl FILE...

The model and its list of labels are read out of the wheel; nothing in it is installed or executed.
"""

import argparse
import json
import sys
import time
import zipfile
from pathlib import Path
from typing import Any

import numpy as np

import rlx


def open_model(wheel: Path) -> tuple[rlx.onnx.Model, dict[str, Any]]:
    """The model and its configuration, as the wheel holds them."""
    with zipfile.ZipFile(wheel) as archive:
        name = next(n for n in archive.namelist() if n.endswith("/model.onnx"))
        folder = name.rpartition("/")[0]
        return rlx.load(archive.read(name)), json.loads(archive.read(f"{folder}/config.min.json"))


def features(path: Path, config: dict[str, Any]) -> np.ndarray:
    """The first and last bytes of a file without surrounding white space, padded to a fixed length."""
    data = path.read_bytes()
    block, pad = config["block_size"], config["padding_token"]
    head = list(data[:block].lstrip()[: config["beg_size"]])
    tail = list(data[-block:].rstrip()[-config["end_size"] :])
    head += [pad] * (config["beg_size"] - len(head))
    tail = [pad] * (config["end_size"] - len(tail)) + tail
    return np.array([head + tail], np.int32)


def main() -> int:
    """Print the three likeliest types of each file."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("wheel", type=Path, help="magika-*.whl")
    parser.add_argument("files", type=Path, nargs="+")
    arguments = parser.parse_args()
    model, config = open_model(arguments.wheel)
    labels = config["target_labels_space"]
    (source,) = model.signature.inputs
    for path in arguments.files:
        given = {source: features(path, config)}
        model.run(given)
        start = time.perf_counter()
        scores = model.run(given)[0][0]
        spent = time.perf_counter() - start
        best = np.argsort(-scores)[:3]
        likely = "".join(f"{labels[i]:>12} {scores[i]:7.2%}" for i in best)
        print(f"{path.name[:24]:24}{likely}   {spent * 1e3:.1f} ms")
    return 0


if __name__ == "__main__":
    sys.exit(main())
