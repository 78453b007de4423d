"""What is written down in a statement: numbers, texts, truth values, null."""

from __future__ import annotations

import re
from typing import Any

from steelyard.errors import InvalidTask
from steelyard.views._refusals import only
from steelyard.views._values import LONGEST_TEXT, Translator, Value, double, literal


def written(to: Translator, node: Any) -> Value:
    import ibis

    only(node, "this", "is_string")
    text = str(node.this)
    if node.is_string:
        if "\0" in text or text.encode(errors="replace").decode() != text or len(text) > LONGEST_TEXT:
            raise InvalidTask("a text must be valid, without NUL, and at most 65,536 characters long.")
        return Value(ibis.literal(text), "string", constant=text)
    if re.fullmatch(r"[0-9]+", text):
        return literal(int(text))
    if not re.fullmatch(r"[0-9]*\.?[0-9]*([eE][+-]?[0-9]{1,3})?", text):
        raise InvalidTask(f"{text[:40]!r} is no number.")
    found = float(text)
    if found - found != 0:
        raise InvalidTask(f"the number {text[:40]} is too large.")
    return Value(double(found), "float", constant=found)


def boolean(to: Translator, node: Any) -> Value:
    import ibis

    only(node, "this")
    return Value(ibis.literal(bool(node.this)), "boolean", constant=bool(node.this))


def null(to: Translator, node: Any) -> Value:
    import ibis

    only(node)
    return Value(ibis.null(), "null")
