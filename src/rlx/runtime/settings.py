"""`RuntimeConfig`: what the environment says, parsed, with where each value comes from."""

import difflib
from typing import Any

from rlx import config
from rlx.errors import ConfigError
from rlx.records import record


@record(frozen=True)
class Setting:
    """One variable as it is now.

    Attributes
    ----------
    value : object
        As parsed; None when it is not set.
    source : str
        `environment` or `default`.
    default : str
        What holds when it is not set, in words.
    option : str
        The field of `CompileOptions` that it is the default of; empty for none.
    """

    name: str
    value: Any
    source: str
    default: str
    option: str

    @property
    def text(self) -> str:
        """The value as it would be written."""
        if self.value is None:
            return self.default
        if isinstance(self.value, bool):
            return str(int(self.value))
        return ",".join(self.value) if isinstance(self.value, tuple) else str(self.value)


@record(frozen=True)
class RuntimeConfig:
    """All variables of the environment that rlx reads.

    Attributes
    ----------
    settings : dict of str to Setting
        By name, in the order of the table.
    unknown : list of str
        Variables called `RLX_...` that rlx does not read.
    """

    settings: dict[str, Setting]
    unknown: list[str]

    @staticmethod
    def current(strict: bool = False) -> "RuntimeConfig":
        """The variables as they are now.

        Parameters
        ----------
        strict : bool
            Refuse variables called `RLX_...` that are not in the table.

        Raises
        ------
        ConfigError
            A value cannot be read, or a name is unknown.
        """
        found = {}
        for name, variable in config.VARIABLES.items():
            value = config.read(name)
            found[name] = Setting(name, value, "default" if value is None else "environment", variable.default,
                                  variable.option)
        unknown = config.unknown()
        if strict and unknown:
            near = difflib.get_close_matches(unknown[0], config.VARIABLES, 1)
            hint = f"\nhint: did you mean {near[0]}?" if near else ""
            raise ConfigError(f"environment: variables called RLX_... must be of {list(config.VARIABLES)},"
                              f" got {unknown}{hint}")
        return RuntimeConfig(found, unknown)

    def __getitem__(self, name: str) -> Any:
        return self.settings[name].value

    def _rows(self) -> list[tuple[str, str, str]]:
        rows = [(s.name, s.text, s.source) for s in self.settings.values()]
        return rows + [(name, "", "not read") for name in self.unknown]

    def __str__(self) -> str:
        from rlx.runtime.report import table_text

        return table_text(("variable", "value", "from"), self._rows())

    def _repr_html_(self) -> str:
        from rlx.runtime.report import table_html

        return table_html(("variable", "value", "from"), self._rows())


def active_options(options: Any) -> dict[str, str]:
    """Options that are not at their built-in defaults: the value, and where it comes from."""
    import dataclasses

    from rlx.options import BUILT_IN

    found = {}
    for field in dataclasses.fields(options):
        value = getattr(options, field.name)
        variable = next((n for n, v in config.VARIABLES.items() if v.option == field.name), None)
        given = None if variable is None else config.read(variable)
        plain = BUILT_IN.get(field.name, field.default)
        if field.name == "precision":
            value, plain = value.name, "f32"
        if field.name in ("dims", "extents"):
            plain = {}
        if value == plain:
            continue
        text = ",".join(map(str, value)) if isinstance(value, tuple) else str(value)
        from_environment = given is not None and str(given) == str(getattr(options, field.name)) or given == value
        found[field.name] = f"{text} ({variable if from_environment else 'given'})"
    return found

