"""docs/performance.md and its plots, from rows of figures. The plots are SVG, drawn here."""

import html
import math
import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import Any

Row = dict[str, Any]
INK, SOFT, LINE, GOOD, BAD, OTHER = "#202124", "#5f6368", "#dadce0", "#3b5bdb", "#c43e1c", "#8a94a3"
FONT = "font-family='system-ui,Segoe UI,Roboto,sans-serif' font-size='11'"
BAR = 15.0


class Plot:
    """An SVG picture that is put together line by line."""

    def __init__(self, width: float, height: float, title: str) -> None:
        self.width, self.height = width, height
        self.parts = [f"<title>{html.escape(title)}</title><rect width='100%' height='100%' fill='#fff'/>"]
        self.text(8, 18, title, bold=True)

    def line(self, x1: float, y1: float, x2: float, y2: float, colour: str = LINE, dash: str = "") -> None:
        """A straight line."""
        extra = f" stroke-dasharray='{dash}'" if dash else ""
        self.parts.append(f"<path d='M{x1:.1f} {y1:.1f}L{x2:.1f} {y2:.1f}' stroke='{colour}'{extra}/>")

    def box(self, x: float, y: float, w: float, h: float, colour: str, tip: str = "") -> None:
        """A filled rectangle."""
        inner = f"<title>{html.escape(tip)}</title>" if tip else ""
        self.parts.append(f"<rect x='{x:.1f}' y='{y:.1f}' width='{max(w, 0.5):.1f}' height='{h:.1f}' fill='{colour}'>"
                          f"{inner}</rect>")  # fmt: skip

    def dot(self, x: float, y: float, colour: str, tip: str) -> None:
        """A point."""
        self.parts.append(f"<circle cx='{x:.1f}' cy='{y:.1f}' r='3.2' fill='{colour}' fill-opacity='0.55'>"
                          f"<title>{html.escape(tip)}</title></circle>")  # fmt: skip

    def text(self, x: float, y: float, text: str, anchor: str = "start", colour: str = INK, bold: bool = False) -> None:
        """A line of text."""
        weight = " font-weight='600'" if bold else ""
        self.parts.append(f"<text x='{x:.1f}' y='{y:.1f}' text-anchor='{anchor}' fill='{colour}'{weight}>"
                          f"{html.escape(text)}</text>")  # fmt: skip

    def __str__(self) -> str:
        return (f"<svg xmlns='http://www.w3.org/2000/svg' width='{self.width:.0f}' height='{self.height:.0f}' "
                f"viewBox='0 0 {self.width:.0f} {self.height:.0f}' {FONT}>{''.join(self.parts)}</svg>\n")  # fmt: skip


def scale(low: float, high: float, left: float, right: float) -> Any:
    """A logarithmic axis as a function; what lies outside is put on its ends."""
    a, b = math.log(low), math.log(high)
    return lambda v: left + (right - left) * (math.log(min(max(v, low), high)) - a) / (b - a)


def ticks(low: float, high: float) -> list[float]:
    """Round values between two others."""
    return [t for t in (0.1, 0.25, 0.5, 1, 2, 4, 8, 16, 32) if low <= t <= high]


def bars(title: str, rows: Sequence[tuple[str, Sequence[float], str]], names: Sequence[str]) -> Plot:
    """Ratios as bars from 1, one or two a row, the worst first.

    Parameters
    ----------
    rows : sequence of (label, ratios, tip)
    names : sequence of str
        What the ratios of a row are.
    """
    thick = BAR if len(names) == 1 else BAR * 1.35
    values = [v for _, ratios, _ in rows for v in ratios if v > 0]
    low, high = min([0.5, *values]), max([2.0, *values])
    left, right, top = 330.0, 860.0, 46.0
    plot = Plot(900, top + thick * len(rows) + 30, title)
    at = scale(low, high, left, right)
    bottom = top + thick * len(rows) + 4
    for t in ticks(low, high):
        plot.line(at(t), top - 4, at(t), bottom, INK if t == 1 else LINE)
        plot.text(at(t), bottom + 14, f"{t:g}", "middle", SOFT)
    if len(names) > 1:
        for i, name in enumerate(names):
            plot.box(left + 130 * i, 26, 9, 9, (GOOD, OTHER)[i])
            plot.text(left + 130 * i + 14, 34, name, colour=SOFT)
    for i, (label, ratios, tip) in enumerate(rows):
        y = top + thick * i
        plot.text(left - 8, y + thick / 2 + 3, label if len(label) < 52 else "…" + label[-50:], "end")
        each = (thick - 3) / max(1, len(ratios))
        for k, v in enumerate(ratios):
            if v <= 0:
                continue
            colour = BAD if v < 1 else (GOOD, OTHER)[k]
            x = at(v)
            plot.box(min(x, at(1)), y + 1.5 + k * each, abs(x - at(1)), each - 0.5, colour, f"{tip} {v:.2f}")
    return plot


def strips(title: str, groups: Sequence[tuple[str, Sequence[tuple[float, str]]]]) -> Plot:
    """Ratios as points in one line per group, the geometric mean as a mark."""
    values = [v for _, points in groups for v, _ in points]
    low, high = min([0.5, *values]), max([2.0, *values])
    left, right, top, tall = 110.0, 860.0, 40.0, 34.0
    plot = Plot(900, top + tall * len(groups) + 30, title)
    at = scale(low, high, left, right)
    bottom = top + tall * len(groups)
    for t in ticks(low, high):
        plot.line(at(t), top, at(t), bottom, INK if t == 1 else LINE)
        plot.text(at(t), bottom + 14, f"{t:g}", "middle", SOFT)
    for i, (name, points) in enumerate(groups):
        y = top + tall * (i + 0.5)
        plot.text(left - 8, y + 4, name, "end")
        for k, (v, tip) in enumerate(points):
            plot.dot(at(v), y + (k % 5 - 2) * 3.6, BAD if v < 1 else GOOD, f"{tip} {v:.2f}")
        if points:
            mean = at(statistics.geometric_mean(v for v, _ in points))
            plot.line(mean, y - 13, mean, y + 13, INK)
    return plot


def measured(rows: Sequence[Row], what: str = "ratio") -> list[Row]:
    """Rows that have a figure."""
    return [r for r in rows if r.get(what, 0) > 0]


def summary(ratios: Sequence[float]) -> str:
    """Mean, worst and count in words."""
    mean = statistics.geometric_mean(ratios)
    count = f"at least 1 on {sum(r >= 1 for r in ratios)} of {len(ratios)}"
    return f"geometric mean **{mean:.2f}**, worst {min(ratios):.2f}, best {max(ratios):.1f}, {count}"


def write(page: Path, results: dict[str, list[Row]], about: dict[str, str]) -> list[Path]:
    """Write the page and its plots; the files that were written."""
    folder = page.with_suffix("")
    folder.mkdir(parents=True, exist_ok=True)
    written: list[Path] = []

    def plot(name: str, made: Plot, alt: str) -> str:
        path = folder / f"{name}.svg"
        path.write_text(str(made), encoding="utf-8")
        written.append(path)
        return f"![{alt}]({folder.name}/{path.name})"

    sections = [_head(about)]
    sections += _call(results["call"])
    sections += _models(results, plot)
    sections += _grid(results["grid"], plot)
    sections += _memory(results["memory"], plot)
    sections.append(_missing(results))
    page.write_text("\n\n".join(s for s in sections if s) + "\n", encoding="utf-8")
    return [page, *written]


def _head(about: dict[str, str]) -> str:
    facts = ", ".join(f"{k} {v}" for k, v in about.items())
    return ("# Performance\n\nThis page is made by `python tools/perf_report.py LIST`, on a quiet machine. A ratio is\n"
            "the time (or the memory) of the other library over that of rlx, by turns: above 1, rlx is better.\n"
            f"Bars and points below 1 are red.\n\nMeasured with {facts}.")  # fmt: skip


CALLS = ("run", "run_slots", "model.run", "onnxruntime")


def _call(rows: Sequence[Row]) -> list[str]:
    found = next((r for r in rows if "seconds" in r), None)
    if found is None:
        return []
    other = found["seconds"]["onnxruntime"]
    lines = [f"| `{name}` | {t * 1e6:.2f} | {other / t:.1f} |" for name, t in found["seconds"].items() if name in CALLS]
    text = ("## A call\n\nEight layers `tanh(x W + b)` of 16 by 16 on one row: almost nothing but the cost of calling."
            "\n\n| | us | ratio |\n|---|---:|---:|\n" + "\n".join(lines))  # fmt: skip
    shares = found.get("over_empty")
    if shares is None:
        return [text]
    over = " and ".join(f"{found['over'][name] * 1e6:.2f} us ({share:.3f} of it) by `{name}`"
                        for name, share in shares.items())  # fmt: skip
    empty = (found["seconds"]["onnxruntime, empty graph"] - found["seconds"]["nothing"]) * 1e6
    return [text, f"The kernels take {found['kernels'] * 1e6:.2f} us of these. Over them a call costs {over};\n"
            f"ONNX Runtime's call of a graph of one Identity takes {empty:.2f} us."]  # fmt: skip


def _models(results: dict[str, list[Row]], plot: Any) -> list[str]:
    one = {r["name"]: r for r in measured(results["models-1"])}
    two = {r["name"]: r for r in measured(results["models-2"])}
    if not one and not two:
        return []
    text = ["## Models\n\nReal models against ONNX Runtime, which is a good guess at their speed elsewhere."]
    for threads, rows in (("one thread", one), ("two threads", two)):
        if rows:
            text.append(f"- {threads}: {summary([r['ratio'] for r in rows.values()])}")
    names = sorted({*one, *two}, key=lambda n: (one.get(n) or two[n])["ratio"])
    rows = [(n, [one[n]["ratio"] if n in one else 0.0, two[n]["ratio"] if n in two else 0.0], n) for n in names]
    picture = bars("time of a run: ONNX Runtime / rlx", rows, ("one thread", "two threads"))
    text += ["", plot("models", picture, "ratio of run times by model")]
    slower = [n for n in names if n in one and n in two
              and two[n]["run"]["rlx"] > 1.05 * one[n]["run"]["rlx"]]  # fmt: skip
    text += ["", "Slower with two threads than with one: " + (", ".join(f"`{n}`" for n in slower) or "none") + "."]
    first = sorted(measured(list(one.values()), "first_ratio"), key=lambda r: r["first_ratio"])
    if first:
        picture = bars("first answer (load, compile, run): ONNX Runtime / rlx",
                       [(r["name"], [r["first_ratio"]], f"{r['first']['rlx'] * 1e3:.1f} ms") for r in first], ("",))
        told = summary([r["first_ratio"] for r in first])
        text += [f"\n### First answers\n\nFrom opening the file to the end of the first run: {told}.", "",
                 plot("first", picture, "first answers by model")]  # fmt: skip
    return ["\n".join(text)]


def _grid(rows: Sequence[Row], plot: Any) -> list[str]:
    rows = measured(rows)
    if not rows:
        return []
    families = list(dict.fromkeys(r["family"] for r in rows))
    groups = [(f, [(r["ratio"], f"{r['name']}, best peer {r['best']}:") for r in rows if r["family"] == f])
              for f in families]
    lines = []
    for f, points in groups:
        v = [p for p, _ in points]
        mean = statistics.geometric_mean(v)
        lines.append(f"| {f} | {len(v)} | {mean:.2f} | {min(v):.2f} | {sum(x >= 1 for x in v)} |")
    peers = sorted({p for r in rows for p in r["us"]} - {"rlx"})
    picture = strips("time of one op: best peer / rlx", groups)
    return [f"## Single ops\n\nReal shapes against the fastest of {', '.join(peers)} in every cell, one thread: "
            f"{summary([r['ratio'] for r in rows])}.\n\n"
            "| family | cells | mean | worst | at least 1 |\n|---|---:|---:|---:|---:|\n" + "\n".join(lines) + "\n\n"
            + plot("grid", picture, "ratio by family of ops")]  # fmt: skip


def _memory(rows: Sequence[Row], plot: Any) -> list[str]:
    rows = sorted(measured(rows), key=lambda r: float(r["ratio"]))
    if not rows:
        return []
    picture = bars("peak memory of load and three runs: ONNX Runtime / rlx",
                   [(r["name"], [r["ratio"]], f"{r['rlx']['peak'] / 2**20:.0f} MiB") for r in rows], ("",))
    text = [f"## Memory\n\nPeak of resident memory of a process that loads a model and runs it three times: "
            f"{summary([r['ratio'] for r in rows])}.", "", plot("memory", picture, "peak memory by model")]
    over = [r["rlx"]["arena"] / r["rlx"]["bound"] for r in rows if r["rlx"].get("bound")]
    if over:
        text += ["", f"The arena is at most {100 * (max(over) - 1):.1f} % above the lower bound that no plan can be"
                     f" below (mean {100 * (statistics.mean(over) - 1):.2f} %)."]  # fmt: skip
    return ["\n".join(text)]


def _missing(results: dict[str, list[Row]]) -> str:
    lost = [f"- {stage}, {r['name']}: {r['missing']}" for stage, rows in results.items() for r in rows
            if isinstance(r.get("missing"), str)]  # fmt: skip
    return "## Not measured\n\n" + "\n".join(lost) if lost else ""
