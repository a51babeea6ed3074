"""`rlx inspect --html`: one page without scripts. The graph and the arena are drawn as SVG."""

import hashlib
import html
from collections.abc import Sequence

from rlx.cli.inspect import histogram
from rlx.cli.layout import place
from rlx.cli.session import Session
from rlx.compiler import Compiled
from rlx.ir.graph import CONSTANT, INPUT, PARAM, Graph, Node, Value
from rlx.lower.memory import lifetimes
from rlx.ops import FAMILY
from rlx.runtime.report import explain, human, table_html

MOST_NODES = 1500
MOST_PARTS = 8

# What a box does, in words; its fill and edge; the families of ops it stands for. The last is for all others.
GROUPS = (
    ("products, convolution, attention, recurrence", "#ffd8cc", "#c43e1c", ("matmul", "conv", "attention", "rnn")),
    ("fused elementwise", "#d7e3fc", "#3b5bdb", ("fused",)),
    ("elementwise", "#d3f0e5", "#0b7a5b", ("unary", "binary")),
    ("reductions, normalisation, pooling", "#fff0c2", "#a87400",
     ("reduce", "norm", "softmax", "pool", "cumulative", "order", "loss")),
    ("moves data or a view", "#eceff3", "#8a94a3", ("view", "movement", "index", "resize", "sample")),
    ("quantised", "#ead9f7", "#7b2cbf", ("quant", "quant_products", "int8")),
    ("control flow", "#fbd5e5", "#b3205f", ("control", "dynamic")),
    ("other", "#f3f0e8", "#7a6a45", ()),
)
COLOURS = {family: (fill, edge) for _, fill, edge, families in GROUPS for family in families}
OTHER, INPUT_BOX, OUTPUT_BOX = GROUPS[-1][1:3], ("#e8eaed", "#5f6368"), ("#202124", "#202124")

STYLE = """
:root{--ink:#202124;--soft:#5f6368;--line:#dadce0;--paper:#fff}
*{box-sizing:border-box}
body{font:14px/1.5 system-ui,"Segoe UI",Roboto,sans-serif;color:var(--ink);background:#f6f7f9;margin:0}
main{max-width:1180px;margin:0 auto;padding:28px 20px 60px}
h1{font-size:24px;margin:0 0 2px}h2{font-size:17px;margin:34px 0 10px}h3{font-size:14px;margin:0 0 8px}
p.sub{color:var(--soft);margin:0 0 18px}
.cards{display:flex;flex-wrap:wrap;gap:12px}
.card{background:var(--paper);border:1px solid var(--line);border-radius:10px;padding:14px 16px}
.figure{flex:1 1 130px}.figure b{display:block;font-size:20px}.figure span{color:var(--soft)}
.grow{flex:1 1 320px;overflow:auto}
table{border-collapse:collapse;font-variant-numeric:tabular-nums;width:100%}
th{font-weight:600;text-align:left;color:var(--soft)}
th,td{padding:3px 14px 3px 0;border-bottom:1px solid #eef0f2;vertical-align:top}
td:not(:first-child),th:not(:first-child){text-align:right}.left td,.left th{text-align:left!important}
.scroll{overflow:auto;max-height:78vh;background:var(--paper);border:1px solid var(--line);border-radius:10px}
.legend{color:var(--soft);margin:0 0 8px}.legend span{white-space:nowrap;margin-right:14px}
.legend i{display:inline-block;width:11px;height:11px;border-radius:3px;margin-right:5px;border:1px solid}
svg{display:block;margin:0 auto}
svg text{font-family:ui-monospace,Menlo,Consolas,monospace;font-size:11px}
svg .t{font-weight:700}svg .s{font-size:10px;fill:#5f6368}
"""


def page(session: Session, parts: Sequence[Compiled]) -> str:
    """The whole page."""
    memory = session.model.memory_report()
    calls = sum(len(p.program.calls) for p in parts)
    nodes = sum(sum(histogram(p).values()) for p in parts)
    saved = 1 - memory.arena / memory.unshared if memory.unshared else 0.0
    figures = [
        (f"{nodes}", "nodes after passes"),
        (f"{calls}", "kernel calls a run"),
        (human(memory.weights), "weights"),
        (human(memory.arena), f"arena, {saved:.0%} saved by sharing"),
        (human(memory.bound), "lower bound of the arena"),
        (parts[0].table.level if parts else "-", "instruction set"),
    ]
    body = [f"<h1>{html.escape(session.path.name)}</h1>",
            f'<p class="sub">compiled by rlx for inputs {html.escape(_given(session))}</p>', '<div class="cards">']
    body += [f'<div class="card figure"><b>{a}</b><span>{b}</span></div>' for a, b in figures]
    body.append("</div><h2>Signature</h2><div class='card left'>" + session.model.signature._repr_html_() + "</div>")
    for i, part in enumerate(parts[:MOST_PARTS]):
        title = f" of part {i + 1} of {len(parts)}" if len(parts) > 1 else ""
        body += [f"<h2>Graph{title}</h2>", legend(), f'<div class="scroll">{graph_svg(part.graph)}</div>',
                 f"<h2>Arena{title}</h2>",
                 '<p class="legend">Each rectangle is a buffer: right is later (kernel calls), down is a higher'
                 " address. Point at one to see what it holds.</p>",
                 f'<div class="scroll">{arena_svg(part)}</div>', f"<h2>Passes and kernels{title}</h2>",
                 '<div class="cards">', *_tables(part), "</div>"]
    if len(parts) > MOST_PARTS:
        body.append(f"<p>{len(parts) - MOST_PARTS} more parts are not drawn.</p>")
    return (f"<!doctype html><html lang=en><meta charset=utf-8><title>{html.escape(session.path.name)} - rlx</title>"
            f"<meta name=viewport content='width=device-width'><style>{STYLE}</style>"
            f"<main>{''.join(body)}</main></html>\n")


def _given(session: Session) -> str:
    return ", ".join(f"{k} {getattr(v, 'dtype', type(v).__name__)}{list(getattr(v, 'shape', ()))}"
                     for k, v in session.inputs.items()) or "none"


def _tables(part: Compiled) -> list[str]:
    explained = explain(part)
    ops = [(k, str(n)) for k, n in histogram(part).most_common()]
    passes = [(n, f"{b} → {a}" if a != b else f"{b}", f"{s * 1e3:.2f}") for n, b, a, s in explained.passes]
    kernels = [(k, str(n)) for k, n in explained.kernels.items()]
    tables = (("Passes", ("pass", "nodes", "ms"), passes), ("Kernels", ("kernel", "calls"), kernels),
              ("Ops", ("op", "nodes"), ops))
    return [f'<div class="card grow"><h3>{title}</h3>{table_html(header, rows)}</div>'
            for title, header, rows in tables]


def legend() -> str:
    """What the colours mean."""
    parts = []
    for label, fill, edge, _ in GROUPS:
        parts.append(f'<span><i style="background:{fill};border-color:{edge}"></i>{label}</span> ')
    return f'<p class="legend">{"".join(parts)}</p>'


# ------------------------------------------------------------------------------ graph


def _title(node: Node) -> str:
    body = node.attrs.get("body")
    if isinstance(body, Graph):
        names = [n.op.name for n in body.nodes if not n.op.has("leaf")]
        text = " ".join(names[:4]) + (f" +{len(names) - 4}" if len(names) > 4 else "")
        return text if node.op.name == "region" else f"{node.op.name}: {text}"
    steps = node.attrs.get("epilogue") or ()
    return node.op.name + "".join(f" +{s[0]}" for s in steps)


def _colours(node: Node) -> tuple[str, str]:
    if node.op is INPUT:
        return INPUT_BOX
    family = "fused" if node.op.name == "region" else FAMILY.get(node.op.name, "")
    return COLOURS.get(family, OTHER)


def _tooltip(node: Node) -> str:
    lines = [f"{node.name} = {node.op.name}"] + ([f"from {node.loc}"] if node.loc else [])
    lines += [f"in   {v.name}: {v.type}" for v in node.inputs if v is not None]
    lines += [f"out  {v.name}: {v.type}" for v in node.outputs]
    for key, value in node.attrs.items():
        if isinstance(value, Graph):
            lines += [f"     {n.outputs[0].name} = {n.op.name}({', '.join(i.name for i in n.inputs if i is not None)})"
                      for n in value.nodes if not n.op.has("leaf")]
        elif value is not None:
            lines.append(f"{key} = {str(value)[:80]}")
    return "\n".join(lines)


def graph_svg(graph: Graph) -> str:
    """The graph as a picture; constants and parameters are left out."""
    nodes = [n for n in graph.nodes if n.op is not CONSTANT and n.op is not PARAM]
    hidden = len(nodes) - MOST_NODES
    nodes = nodes[:MOST_NODES]
    index = {id(n): i for i, n in enumerate(nodes)}
    labels = [(_short(n.name), str(n.outputs[0].type)) if n.op is INPUT else (_title(n), str(n.outputs[0].type))
              for n in nodes]
    edges = sorted({(index[id(v.node)], index[id(n)]) for n in nodes for v in n.inputs
                    if v is not None and id(v.node) in index})
    outputs: list[tuple[str, Value]] = [(k, v) for k, v in graph.outputs.items() if id(v.node) in index]
    for name, value in outputs:
        edges.append((index[id(value.node)], len(labels)))
        labels.append((_short(name), str(value.type)))
    sizes = [(max(46.0, 6.7 * max(len(a), len(b) * 0.92) + 16), 34.0) for a, b in labels]
    drawing = place(sizes, edges)
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{drawing.width:.0f}" height="{drawing.height:.0f}">']
    out += [f'<path d="{_curve([(b.x, b.y, b.height) for b in chain])}" fill="none" stroke="#9aa0a6"/>'
            for chain in drawing.edges]
    for i, ((title, subtitle), box) in enumerate(zip(labels, drawing.boxes, strict=True)):
        node = nodes[i] if i < len(nodes) else None
        fill, edge = _colours(node) if node is not None else OUTPUT_BOX
        ink = "#fff" if node is None else "#202124"
        soft = ' style="fill:#c8ccd1"' if node is None else ""
        tip = _tooltip(node) if node is not None else f"output {title}: {subtitle}"
        out.append(
            f"<g><title>{html.escape(tip)}</title>"
            f'<rect x="{box.x - box.width / 2:.1f}" y="{box.y - box.height / 2:.1f}" width="{box.width:.1f}"'
            f' height="{box.height:.1f}" rx="6" fill="{fill}" stroke="{edge}"/>'
            f'<text class="t" x="{box.x:.1f}" y="{box.y - 3:.1f}" text-anchor="middle" fill="{ink}">'
            f"{html.escape(title)}</text>"
            f'<text class="s" x="{box.x:.1f}" y="{box.y + 11:.1f}" text-anchor="middle"{soft}>'
            f"{html.escape(subtitle)}</text></g>"
        )
    out.append("</svg>")
    note = f"<p>{hidden} more nodes are not drawn.</p>" if hidden > 0 else ""
    return "".join(out) + note


def _short(name: str, most: int = 28) -> str:
    return name if len(name) <= most else "…" + name[1 - most :]


def _curve(points: Sequence[tuple[float, float, float]]) -> str:
    x, y, height = points[0]
    y += height / 2
    path = [f"M{x:.1f},{y:.1f}"]
    for px, py, ph in points[1:]:
        top = py - ph / 2
        mid = (y + top) / 2
        path.append(f"C{x:.1f},{mid:.1f} {px:.1f},{mid:.1f} {px:.1f},{top:.1f}")
        x, y = px, top if ph else py
    return "".join(path)


# ------------------------------------------------------------------------------ arena


def arena_svg(part: Compiled, width: int = 1120, height: int = 420) -> str:
    """Buffers of the arena over time."""
    program = part.program
    spans = {b: s for b, s in lifetimes(program).items() if b.slot == 0}
    if not spans or not program.arena_bytes:
        return "<p>&nbsp; This program needs no arena.</p>"
    calls = len(program.calls)
    left, top, bottom = 76, 12, 34
    sx, sy = (width - left - 12) / calls, (height - top - bottom) / program.arena_bytes
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}">',
           f'<rect x="{left}" y="{top}" width="{calls * sx:.1f}" height="{program.arena_bytes * sy:.1f}"'
           ' fill="#fafbfc" stroke="#dadce0"/>']
    for i in range(5):
        y = top + program.arena_bytes * sy * i / 4
        out.append(f'<text class="s" x="{left - 8}" y="{y + 3:.1f}" text-anchor="end">'
                   f"{human(program.arena_bytes * i / 4)}</text>")
        at = round(calls * i / 4)
        out.append(f'<text class="s" x="{left + at * sx:.1f}" y="{height - 14}" text-anchor="middle">{at}</text>')
    seen = set()
    for buffer, (first, last) in sorted(spans.items(), key=lambda item: -item[0].nbytes):
        key = (buffer.offset, buffer.nbytes, first, last)
        if key in seen or buffer.nbytes == 0:
            continue
        seen.add(key)
        call = program.calls[first]
        tip = (f"{buffer.label}\n{human(buffer.nbytes)} at {buffer.offset}\ncalls {first} to {last}"
               f"\nmade by {call.kernel} ({program.nodes[call.node].name})")
        hue = int(hashlib.sha256(call.kernel.encode()).hexdigest()[:4], 16) % 360
        out.append(f"<g><title>{html.escape(tip)}</title>"
                   f'<rect x="{left + first * sx:.2f}" y="{top + buffer.offset * sy:.2f}"'
                   f' width="{max(1.0, (last - first + 1) * sx):.2f}" height="{max(1.0, buffer.nbytes * sy):.2f}"'
                   f' fill="hsl({hue} 55% 74%)" stroke="hsl({hue} 45% 42%)" stroke-width=".8"/></g>')
    out.append("</svg>")
    return "".join(out)
