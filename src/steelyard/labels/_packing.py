"""The long lists of a saved randomizer in a third of the space, for files that travel to devices.

Whole numbers become base64 texts of little-endian groups of seven bits (the eighth says that more follow; signed ones
are doubled, odd when negative). A column's weights are one number times a few shared ones, its output a whole number
over that number and one shared unit, plus a shift; prices are a mantissa and a power of two; a certificate's prior is
left out where it is the declared one. The law: unpacking gives back every claim, to the bit, and only what was unpacked
is judged.
"""

from __future__ import annotations

import base64
import math
from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction
from typing import Any

from steelyard.labels._check import only
from steelyard.privacy import written

_LONGEST = 1 << 14  # bits of a whole number: reading a longer one takes its square


def pack(part: Mapping[str, Any]) -> dict[str, Any]:
    """One group's randomizer with the lists of its table packed; added noise has none."""
    table = part["mechanism"]
    if "columns" not in table:
        return dict(part)
    packed, certificate = {**table, "columns": _pack_columns(table["columns"])}, table["certificate"]
    if certificate is not None:
        same = certificate["prior"] == part["prior"]["weights"]
        prices = {name: _pack_prices(certificate[name]) for name in ("u", "slope")}
        packed["certificate"] = {**certificate, "prior": None if same else certificate["prior"], **prices}
    return {**part, "mechanism": packed}


def unpack(part: Mapping[str, Any]) -> dict[str, Any]:
    """One group's randomizer as it was before it was packed, if it was.

    What cannot be unpacked raises ValueError, KeyError, TypeError or IndexError.
    """
    table = part["mechanism"]
    if not isinstance(table.get("columns"), Mapping):
        return dict(part)
    plain, certificate = {**table, "columns": _read_columns(table["columns"])}, table["certificate"]
    if certificate is not None:
        weights = part["prior"]["weights"] if certificate["prior"] is None else certificate["prior"]
        prices = {name: _read_prices(certificate[name]) for name in ("u", "slope")}
        plain["certificate"] = {**certificate, "prior": weights, **prices}
    return {**part, "mechanism": plain}


def _pack_columns(columns: Sequence[Any]) -> dict[str, Any]:
    """Columns of [output, starts, weights] as lists of all columns' parts."""
    runs = [[int(w) for w in weights] for _, _, weights in columns]
    shared = [math.gcd(*weights) for weights in runs]
    ratios = list(dict.fromkeys(w // g for weights, g in zip(runs, shared, strict=True) for w in weights))
    number = {ratio: n for n, ratio in enumerate(ratios)}
    outputs = [Fraction(z) for z, _, _ in columns]
    shift, unit, whole = min(
        (_over(outputs, shared, z) for z in (Fraction(0), outputs[-1])), key=lambda found: found[1]
    )
    steps = [[b - a for a, b in zip([0, *starts], starts, strict=False)] for _, starts, _ in columns]
    return {
        "shift": str(shift),
        "unit": str(unit),
        "outputs": _wholes(_signed(x) for x in whole),
        "shared": _wholes(shared),
        "ratios": _wholes(ratios),
        "runs": _wholes(len(weights) for weights in runs),
        "starts": _wholes(step for part in steps for step in part),
        "picks": _wholes(number[w // g] for weights, g in zip(runs, shared, strict=True) for w in weights),
    }


def _over(outputs: list[Fraction], shared: list[int], shift: Fraction) -> tuple[Fraction, int, list[int]]:
    """The outputs as shift + whole / (shared unit), with the least unit that serves all of them."""
    scaled = [(z - shift) * g for z, g in zip(outputs, shared, strict=True)]
    unit = math.lcm(*(x.denominator for x in scaled))
    return shift, unit, [int(x * unit) for x in scaled]


def _read_columns(packed: Mapping[str, Any]) -> list[list[Any]]:
    shift, unit = written(packed["shift"], "the shift"), written(packed["unit"], "the unit")
    lists = ("outputs", "shared", "ratios", "runs", "starts", "picks")
    only(packed, "shift", "unit", *lists)
    parts = {name: _read_wholes(packed[name]) for name in lists}
    if unit < 1 or packed["unit"] != str(unit.numerator) or max(*parts["shared"], *parts["ratios"]) > 1 << 64:
        raise ValueError("the unit is not a whole positive number, or a weight exceeds what any row may sum to")
    columns, place = [], 0
    for output, shared, runs in zip(parts["outputs"], parts["shared"], parts["runs"], strict=True):
        starts, start = [], 0
        for step in parts["starts"][place : place + runs]:
            start += step
            starts.append(start)
        weights = [str(shared * parts["ratios"][n]) for n in parts["picks"][place : place + runs]]
        columns.append([str(shift + Fraction(_unsigned(output)) / (shared * unit)), starts, weights])
        place += runs
    if place != len(parts["starts"]) or place != len(parts["picks"]):
        raise ValueError("the columns do not use up their starts and weights")
    return columns


def _pack_prices(prices: Sequence[str]) -> dict[str, str]:
    """Fractions as one shared odd fraction times whole mantissas times powers of two."""
    values = [Fraction(x) for x in prices]
    top, bottom = math.gcd(*(x.numerator for x in values)) or 1, math.lcm(*(x.denominator for x in values))
    whole = [int(x / top * bottom) for x in values]
    powers = [(x & -x).bit_length() - 1 if x else 0 for x in whole]
    mantissas = (_signed(x >> power) for x, power in zip(whole, powers, strict=True))
    return {"unit": str(Fraction(top, bottom)), "mantissas": _wholes(mantissas), "powers": _wholes(powers)}


def _read_prices(packed: Mapping[str, str]) -> list[str]:
    only(packed, "unit", "mantissas", "powers")
    unit, powers = written(packed["unit"], "the unit of prices"), _read_wholes(packed["powers"])
    if max(powers, default=0) > 1 << 12:
        raise ValueError("a price has a power of two beyond any price")
    mantissas = _read_wholes(packed["mantissas"])
    return [str(unit * (_unsigned(x) << power)) for x, power in zip(mantissas, powers, strict=True)]


def _signed(value: int) -> int:
    return 2 * value if value >= 0 else -2 * value - 1


def _unsigned(value: int) -> int:
    return value // 2 if value % 2 == 0 else -(value + 1) // 2


def _wholes(values: Iterable[int]) -> str:
    out = bytearray()
    for value in values:
        while value > 127:
            out.append(value & 127 | 128)
            value >>= 7
        out.append(value)
    return base64.b64encode(out).decode("ascii")


def _read_wholes(text: str) -> list[int]:
    values, value, shift = [], 0, 0
    held = base64.b64decode(text, validate=True)
    if base64.b64encode(held).decode("ascii") != text:
        raise ValueError("a list of whole numbers is written in another way than a browser reads")
    for byte in held:
        if shift > _LONGEST:
            raise ValueError("a whole number is longer than any of a mechanism")
        value |= (byte & 127) << shift
        shift += 7
        if byte < 128:
            values.append(value)
            value = shift = 0
    if shift:
        raise ValueError("a list of whole numbers ends in the middle of one")
    return values
