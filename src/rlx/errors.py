"""All exceptions. Form: ``<node or place>: <what must hold>, got <values>``, then ``hint: ...``.

Each class also derives from the built-in that a Python user would catch.
"""


class RlxError(Exception):
    """Base of everything that rlx raises."""


class GraphError(RlxError, ValueError):
    """A graph is malformed: unknown op, bad attribute, value of another graph."""


class TypeRuleError(GraphError, TypeError):
    """Operands do not satisfy an op's shape or dtype rule."""


class LegalizeError(RlxError, NotImplementedError):
    """The backend does not do some ops; the text lists all of them."""


class PassError(RlxError, RuntimeError):
    """A pass failed; names the pass and the passes before it."""


class LoweringError(RlxError, NotImplementedError):
    """No kernel for an op and dtype; says which exist."""


class BindingError(RlxError, ValueError):
    """What a caller gave does not fit: shape, dtype, arity, completeness."""


class UnknownNameError(BindingError, KeyError):
    """A name that is no input, output, parameter or handle; lists the nearest ones."""

    def __str__(self) -> str:
        return ValueError.__str__(self)


class BindingTypeError(BindingError, TypeError):
    """An array of another dtype than declared."""


class ExecutionError(RlxError, RuntimeError):
    """A run failed; names the node."""


class IndexExecutionError(ExecutionError, IndexError):
    """An index met at run time lies outside its axis."""


class DivisionExecutionError(ExecutionError, ZeroDivisionError):
    """Integer division by zero at run time."""


class CancelledError(ExecutionError):
    """The run was cancelled; the executable is usable."""


class FormatError(RlxError, ValueError):
    """A file is not what it claims to be: ONNX, GGUF, ahead-of-time."""


class UnsupportedOpError(FormatError, NotImplementedError):
    """A model file holds ops that cannot be imported; lists all of them."""


class ConfigError(RlxError, ValueError):
    """An environment variable or option has a bad value."""
