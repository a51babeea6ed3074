"""What importing costs, in a fresh interpreter."""


class Import:
    """Statements as asv's raw timing wants them."""

    def timeraw_import_numpy(self) -> str:
        """The floor."""
        return "import numpy"

    def timeraw_import_rlx(self) -> str:
        """Names are loaded when first used."""
        return "import rlx"

    def timeraw_import_ops(self) -> str:
        """The table of ops."""
        return "import rlx.ops"

    def timeraw_compile_once(self) -> str:
        """All that a first graph needs."""
        return ("import rlx\nfrom rlx import ops\ng = rlx.Graph('g')\n"
                "g.output('y', ops.tanh(g.input('x', (4,), rlx.f32)))\nrlx.compile(g)")
