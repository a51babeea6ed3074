"""All exceptions. Form: ``<node or place>: <what must hold>, got <values>``, then ``hint: ...``.

Each class also derives from the built-in that a Python user would catch. The
docstrings are the user's pages (`docs/errors.md`); their examples are run by a test.
"""


class RlxError(Exception):
    """Base of everything that rlx raises.

    Remedy: catch it where the reason does not matter; catch a subclass, or the
    built-in it derives from, where it does.
    """


class GraphError(RlxError, ValueError):
    """A graph is malformed: unknown attribute, value of another graph, name used twice.

    ```pycon
    >>> g, h = rlx.Graph("g"), rlx.Graph("h")
    >>> ops.add(g.input("x", (2,), rlx.f32), h.input("y", (2,), rlx.f32))
    Traceback (most recent call last):
    rlx.errors.GraphError: add: operands must belong to graph 'g', got 'y' of graph 'h'
    ```

    Remedy: build all nodes of a program in one `Graph`; the text names the op and the value.
    """


class TypeRuleError(GraphError, TypeError):
    """Operands do not satisfy an op's shape or dtype rule. Raised while the graph is built.

    ```pycon
    >>> g = rlx.Graph("g")
    >>> g.input("x", (2, 3), rlx.f32) @ g.param("w", (4, 3), rlx.f32)
    Traceback (most recent call last):
    rlx.errors.TypeRuleError: matmul: inner sizes must agree, got f32[2, 3] and f32[4, 3]
    ```

    Remedy: types are never promoted for you; `ops.cast`, `ops.reshape` and `ops.transpose` say what you mean.
    """


class SizeError(GraphError, MemoryError):
    """A tensor, or all that a run needs, is larger than memory, or has more axes than are supported.

    Raised before anything is allocated.

    ```pycon
    >>> g = rlx.Graph("g")
    >>> ops.expand(g.input("x", (1,), rlx.f32), shape=(2**62,))
    Traceback (most recent call last):
    rlx.errors.SizeError: expand: a tensor must have less than 2**60 bytes, got f32[4611686018427387904]
    ```

    Remedy: look at the shape that the text names.
    """


class LegalizeError(RlxError, NotImplementedError):
    """The backend does not do some ops at these element types; the text lists all of them.

    Remedy: cast to a type that the list names, or look the op up in [the reference](reference/ops.md).
    """


class PassError(RlxError, RuntimeError):
    """A pass failed: a fault of rlx, not of the graph. Names the pass and the passes before it.

    Remedy: `CompileOptions(disable=("that-pass",))` goes on without it. Please report the graph.
    """


class LoweringError(RlxError, NotImplementedError):
    """No kernel for an op and dtype, or a program that does not hold together; says which kernels exist.

    Remedy: as for `LegalizeError`.
    """


class BindingError(RlxError, ValueError):
    """What a caller gave does not fit: shape, arity, completeness.

    ```pycon
    >>> g = rlx.Graph("g")
    >>> _ = g.output("y", ops.tanh(g.input("x", (2, 3), rlx.f32)))
    >>> exe = rlx.compile(g)
    >>> exe.run({"x": np.zeros((2, 4), np.float32)})
    Traceback (most recent call last):
    rlx.errors.BindingError: input 'x' of graph 'g': shape must be (2, 3), got (2, 4)
    ```

    Remedy: `exe.signature` prints what is expected. Sizes that vary are declared by name: `("batch", 3)`.
    """


class UnknownNameError(BindingError, KeyError):
    """A name that is no input, output, parameter or handle; lists the nearest ones.

    ```pycon
    >>> exe.set_param("w", np.ones(3, np.float32))
    Traceback (most recent call last):
    rlx.errors.UnknownNameError: graph 'g': no parameter 'w'
    hint: there are none
    ```

    Remedy: `exe.signature` lists the names.
    """

    def __str__(self) -> str:
        return ValueError.__str__(self)


class BindingTypeError(BindingError, TypeError):
    """An array of another dtype than declared.

    ```pycon
    >>> exe.run({"x": np.zeros((2, 3))})
    Traceback (most recent call last):
    rlx.errors.BindingTypeError: input 'x' of graph 'g': dtype must be f32, got float64
    hint: convert with .astype('float32')
    ```

    Remedy: convert the array; rlx does not narrow or widen behind your back.
    """


class ExecutionError(RlxError, RuntimeError):
    """A run failed on the values it met; names the node. The executable stays usable.

    Also raised by a second call on an executable that is busy.

    Remedy: the text names node, op and value; `exe.dump_nodes(inputs)` shows what led to it. For use from several
    threads take `exe.clone()` or `CompileOptions(busy="wait")`.
    """


class IndexExecutionError(ExecutionError, IndexError):
    """An index met at run time lies outside its axis. Nothing has been read or written there.

    Remedy: indices count from 0, or from -1 backwards; check the table's size against the ids.
    """


class DivisionExecutionError(ExecutionError, ZeroDivisionError):
    """Integer division by zero at run time.

    ```pycon
    >>> g = rlx.Graph("g")
    >>> x, y = g.input("x", (2,), rlx.i32), g.input("y", (2,), rlx.i32)
    >>> _ = g.output("q", ops.div(x, y, name="ratio"))
    >>> rlx.compile(g).run({"x": np.ones(2, np.int32), "y": np.array([1, 0], np.int32)})
    Traceback (most recent call last):
    rlx.errors.DivisionExecutionError: node 'ratio' (div)...: an integer divisor must not be 0, got 0 (element 1)
    ```

    Remedy: guard the divisor with `ops.where`, or divide floats, which give infinity or NaN.
    """


class CancelledError(ExecutionError):
    """The run was stopped by `cancel()` from another thread; the executable is usable."""


class FormatError(RlxError, ValueError):
    """A file is not what it claims to be, or is damaged: ONNX, ahead-of-time.

    Remedy: the text says which field of the file is wrong; fetch or export it again.
    """


class FileError(FormatError, OSError):
    """A file cannot be read or written; `errno` is that of the system.

    Remedy: the text names the path and the system's reason: rights, a folder, a full disk.
    """


class MissingFileError(FileError, FileNotFoundError):
    """A file, or the folder to write one in, does not exist.

    ```pycon
    >>> rlx.load("m.onnx")
    Traceback (most recent call last):
    rlx.errors.MissingFileError: load: the model must be a readable file, got 'm.onnx' (No such file or directory)
    ```

    Remedy: the text names the path; a relative one starts at the folder of the process.
    """


def file_error(text: str, cause: Exception) -> FormatError:
    """The error for what the system said about a path."""
    if not isinstance(cause, OSError):  # a path that no system knows, as one with a null character
        return FormatError(text)
    made = MissingFileError(text) if isinstance(cause, FileNotFoundError) else FileError(text)
    made.errno = cause.errno
    return made


class UnsupportedOpError(FormatError, NotImplementedError):
    """A model file holds ops that cannot be imported; lists all of them with their nodes.

    Remedy: simplify the model before export, or report the list.
    """


class ConfigError(RlxError, ValueError):
    """An environment variable or option has a bad value.

    ```pycon
    >>> rlx.CompileOptions(threads=0)
    Traceback (most recent call last):
    rlx.errors.ConfigError: CompileOptions.threads: must be a positive int, got 0
    ```

    Remedy: the text lists what is allowed; [the command line page](cli.md) has the table of variables.
    """
