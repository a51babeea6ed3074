"""Products with one column, or few rows by a matrix stored [N, K]: read along K, nothing is packed."""

from collections.abc import Sequence

from rlx.lower import gemm
from rlx.lower.gemm import EPI_FULL, EPI_UNARY, Plan, Step
from rlx.records import record, replace

MOST_VECTORS = 4


@record(frozen=True)
class Layout:
    """A product as lowering sees it: sizes, strides between rows, and which operands are transposed."""

    m: int
    n: int
    k: int
    lda: int
    ldb: int
    ldo: int
    trans_a: bool
    trans_b: bool
    batch: Sequence[tuple[int, int, int, int]]

    @property
    def one_column(self) -> bool:
        """Whether A is the matrix and B a vector whose elements lie side by side."""
        return self.n == 1 and not self.trans_a and (self.ldb == 1 or self.trans_b or self.k == 1) and (
            self.ldo == 1 or self.m == 1
        )

    @property
    def few_rows(self) -> bool:
        """Whether B is the matrix, stored [N, K], and A a few vectors."""
        return self.m <= MOST_VECTORS and self.trans_b and not self.trans_a


def plan(p: Layout, dtype: str, steps: Sequence[Step], clamp: tuple[float, float] | None, out_size: int,
         stored: str | None, level: str | None) -> tuple[Plan, bool] | None:
    """(plan, whether B is the matrix), or None where another kernel is as good or the only one.

    The arguments of the thunk are matrix, vectors, out, bias or absent, workspace or absent, operands of the
    epilogue. `stored`: half type of B if that is not `dtype`.
    """
    if p.m == 0 or p.n == 0:
        return None
    if p.few_rows and p.n > 1:
        batch = [(size, b, a, out) for size, a, b, out in p.batch]
        found = gemm.plan_matvec(p.n, p.k, dtype=dtype, lda=p.ldb, vectors=p.m, ldx=p.lda, ldo=p.ldo, batch=batch,
                                 clamp=clamp, steps=steps, stored=stored, out_size=out_size, level=level)  # fmt: skip
        return found, True
    if p.one_column and stored is None:
        turned = [_turned(s, p.m) for s in steps]
        rows = [s for s in turned if s is not None]
        if len(rows) < len(steps):
            return None
        found = gemm.plan_matvec(p.m, p.k, dtype=dtype, lda=p.lda, batch=p.batch, clamp=clamp, steps=rows,
                                 bias_scalar=True, out_size=out_size, level=level)  # fmt: skip
        return found, False
    return None


def _turned(step: Step, m: int) -> Step | None:
    """A step on a column, on the row that the kernel makes of it; None if its operand is one number."""
    kind = step.kind & 7
    if kind == EPI_UNARY or m == 1:
        return step
    if kind == EPI_FULL:
        return replace(step, ld=m)
    return None
