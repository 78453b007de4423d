"""Point the audit at diffprivlib's regressions: how much privacy loss do their own runs prove?

Run with a Python that has diffprivlib 0.6.6 given as ``--peer-python``; the samples are drawn there, the bound is
computed here. Logistic: data_norm=100, claimed epsilon 1. Linear: bounds (0, 1) without an intercept, whose diagonal is
released without noise. Prints one line each.
"""

from __future__ import annotations

import argparse
import json
import subprocess
from functools import partial
from typing import Any

import numpy as np

from steelyard.audit import Epsilon, certify
from steelyard.audit._sampling import Feature

LOGISTIC = """
import json, sys, warnings
import numpy as np
warnings.simplefilter("ignore")
from diffprivlib.models import LogisticRegression
last, size = json.load(sys.stdin)
x, y = np.array([[0.0], [0.0], [last]]), np.array([0, 1, 1])
found = [LogisticRegression(epsilon=1.0, data_norm=100.0, fit_intercept=False, tol=1e-10).fit(x, y).coef_[0, 0]
         for _ in range(size)]
print(json.dumps(found))
"""
LINEAR = """
import json, sys, warnings
import numpy as np
warnings.simplefilter("ignore")
from diffprivlib.models import LinearRegression
last, size = json.load(sys.stdin)
x, y = np.array([[0.5], [0.5], [last]]), np.zeros(3)
found = []
for _ in range(size):
    model = LinearRegression(epsilon=1.0, bounds_X=(0, 1), bounds_y=(0, 1), fit_intercept=False)
    seen = []
    from diffprivlib.models import linear_regression as home
    original = home._construct_regression_obj
    def watch(*a, **k):
        out = original(*a, **k)
        seen.append(out)
        return out
    home._construct_regression_obj = watch
    model.fit(x, y)
    home._construct_regression_obj = original
    objective = seen[0][0][0] if isinstance(seen[0][0], (list, tuple)) else seen[0][0]
    value = lambda w: objective(np.array([w]))[0] if isinstance(objective(np.array([w])), tuple) else objective(np.array([w]))
    found.append(float(value(1.0) + value(-1.0) - 2 * value(0.0)))
print(json.dumps(found))
"""


def drawn(python: str, script: str, last: float, size: int) -> Any:
    """Samples drawn by the other Python."""
    done = subprocess.run(
        [python, "-c", script], input=json.dumps([last, size]), capture_output=True, text=True, check=True
    )
    return np.array(json.loads(done.stdout))


def main() -> None:
    """Print what was proved."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--peer-python", required=True)
    parser.add_argument("--samples", type=int, default=4000)
    args = parser.parse_args()
    for name, script, values in (("logistic", LOGISTIC, (0.0, 100.0)), ("linear", LINEAR, (0.0, 1.0))):
        left, right = (partial(drawn, args.peer_python, script, value) for value in values)
        found = certify(left, right, Epsilon(1.0), samples=args.samples, look_at=(Feature("the size", np.abs),))
        print(f"{name}: {found.check('diffprivlib')}")


if __name__ == "__main__":
    main()
