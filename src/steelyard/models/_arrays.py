"""Users as scikit-learn estimators are given them: the type of a column is public, an entry is private.

Law: what is refused is refused for a shape or a type; no entry changes another, and none raises.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from steelyard.errors import InvalidTask
from steelyard.tables import texts_of


def units(users: Any) -> NDArray[Any]:
    """Whose row each one is: a typed NumPy array as it is, anything else as one text for each entry by itself.

    *Privacy:* read as one column, one odd id would turn all others into floats or texts, and ids above 2^53 into one user.
    """
    if isinstance(users, np.ndarray) and users.dtype.kind in "biufUSM" and not isinstance(users, np.ma.MaskedArray):
        return users
    if getattr(users, "ndim", 1) != 1:
        raise InvalidTask("users= is one column: whose row each one is.")
    return texts_of(users)
