"""Names of ops for somebody who asked for one that does not exist."""

import difflib
from collections.abc import Iterable


def nearest(name: str, names: Iterable[str]) -> list[str]:
    """Names that hold this one, or that it holds, or that are spelled alike; the most alike first."""
    asked = name.casefold()
    alike = {known: difflib.SequenceMatcher(None, asked, known.casefold()).ratio() for known in names}
    inside = [k for k in alike if min(len(asked), len(k)) >= 3 and (asked in k.casefold() or k.casefold() in asked)]
    inside.sort(key=lambda k: (asked not in k.casefold().split("_"), -alike[k]))
    spelled = difflib.get_close_matches(asked, alike, n=3)
    return list(dict.fromkeys([*inside[:3], *spelled]))[:4]
