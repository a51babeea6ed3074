"""`rlx bench --html`: the roofline and the nodes of a run on one page without scripts."""

import html
import math
from collections.abc import Mapping, Sequence

from rlx.cli.page import STYLE
from rlx.runtime.roofline import Machine, NodeTime, Roofline

WIDTH, HEIGHT, LEFT, BOTTOM = 760.0, 360.0, 58.0, 34.0
INTENSITY = (1 / 32, 1024.0)  # operations per byte that are drawn
COLOURS = {"compute": "#c43e1c", "memory": "#3b5bdb"}
# Long names of nodes and kernels break, figures do not.
COLUMNS = ".whole{white-space:nowrap}td:not(.whole){overflow-wrap:anywhere;min-width:14em}"


def page(name: str, found: Roofline, samples: Mapping[str, Sequence[float]]) -> str:
    """The whole page."""
    cards = "".join(
        f'<div class="card figure"><b>{min(v) * 1e3:.3f} ms</b><span>fastest of {len(v)}, {html.escape(k)}</span></div>'
        for k, v in samples.items())  # fmt: skip
    left = 100 * found.saved / max(found.total, 1e-9)
    cards += f'<div class="card figure"><b>{left:.0f} %</b><span>of the time is above the roofline</span></div>'
    header, rows = found.table()
    head = "".join(f"<th>{h}</th>" for h in header)
    body = "".join("<tr>" + "".join(f'<td class="{"" if k in (1, 2) else "whole"}">{html.escape(c)}</td>'
                                    for k, c in enumerate(r)) + "</tr>" for r in rows)  # fmt: skip
    machine = html.escape(str(found.machine)).replace("\n", "<br>")
    title = html.escape(name)
    return (f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{title}</title>'
            f'<style>{STYLE}{COLUMNS}</style></head><body><main><h1>{title}</h1><p class="sub">{machine}</p>'
            f'<div class="cards">{cards}</div><h2>Roofline</h2><div class="scroll">{drawing(found)}</div>'
            f'<h2>Nodes, dearest first</h2><div class="card grow"><table class="left"><thead><tr>{head}</tr></thead>'
            f"<tbody>{body}</tbody></table></div></main></body></html>\n")  # fmt: skip


def drawing(found: Roofline) -> str:
    """Nodes by operations per byte and operations per second, under the roof; area is time."""
    machine = found.machine
    top = machine.peak["f32"] * machine.threads * 2
    low = top / 4096
    shown = [r for r in found.rows if r.work is not None and r.work.flops > 0 and r.nanoseconds > 0]
    parts = [_grid(low, top), _roof(machine, low, top)]
    most = max((r.nanoseconds for r in shown), default=1.0)
    for r in shown:
        parts.append(_dot(r, most, low, top))
    size = f'width="{WIDTH + LEFT + 12:.0f}" height="{HEIGHT + BOTTOM + 12:.0f}"'
    return f'<svg {size} role="img" aria-label="roofline">{"".join(parts)}</svg>'


def _x(intensity: float) -> float:
    low, high = map(math.log2, INTENSITY)
    return LEFT + WIDTH * (min(max(math.log2(intensity), low), high) - low) / (high - low)


def _y(rate: float, low: float, top: float) -> float:
    share = (math.log2(max(rate, low)) - math.log2(low)) / (math.log2(top) - math.log2(low))
    return 8 + HEIGHT * (1 - min(share, 1.0))


def _grid(low: float, top: float) -> str:
    lines = []
    for power in range(-5, 11, 3):
        x = _x(2.0**power)
        lines.append(f'<path d="M{x:.1f} 8V{8 + HEIGHT}" stroke="#eef0f2"/><text x="{x:.1f}" y="{HEIGHT + 24}"'
                     f' text-anchor="middle">{2.0**power:g}</text>')  # fmt: skip
    for decade in range(math.ceil(math.log10(low)), math.floor(math.log10(top)) + 1):
        rate = 10.0**decade
        y = _y(rate, low, top)
        lines.append(f'<path d="M{LEFT} {y:.1f}H{LEFT + WIDTH}" stroke="#eef0f2"/><text x="{LEFT - 6}" y="{y + 4:.1f}"'
                     f' text-anchor="end">{rate:g}</text>')  # fmt: skip
    lines.append(f'<text class="s" x="{LEFT + WIDTH / 2}" y="{HEIGHT + 40}" text-anchor="middle">operations per byte;'
                 " upwards Gflop/s; area is time; red: bound by arithmetic, blue by memory; dashed: first cache</text>")
    return "".join(lines)


def _roof(machine: Machine, low: float, top: float) -> str:
    peak = machine.peak["f32"] * machine.threads
    lines = []
    for (size, rate), dash in ((machine.bandwidth[0], "4 3"), (machine.bandwidth[-1], "none")):
        knee = peak / rate
        start = f"{_x(INTENSITY[0]):.1f} {_y(INTENSITY[0] * rate, low, top):.1f}"
        lines.append(f'<path d="M{start}L{_x(knee):.1f} {_y(peak, low, top):.1f}H{LEFT + WIDTH}" fill="none"'
                     f' stroke="#202124" stroke-dasharray="{dash}"><title>'
                     f'reading {size >> 10} KiB: {rate:.0f} GB/s</title></path>')  # fmt: skip
    return "".join(lines)


def _dot(row: NodeTime, most: float, low: float, top: float) -> str:
    work = row.work
    assert work is not None
    x, y = _x(work.flops / max(work.nbytes, 1.0)), _y(work.flops / row.nanoseconds, low, top)
    radius = 2 + 14 * math.sqrt(row.nanoseconds / most)
    colour = COLOURS[row.bound]
    share = 100 * (row.share or 0)
    tip = html.escape(f"{row.op} {row.node}: {row.nanoseconds / 1e3:.1f} us, {row.rate}, {share:.0f} %")
    return (f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{radius:.1f}" fill="{colour}" fill-opacity="0.45" stroke="{colour}">'
            f"<title>{tip}</title></circle>")  # fmt: skip
