"""Speed and timing of the noise, beside opendp's vector API, in one run.

    python bench/noise.py [--quick]

Rates are per second of CPU time, so that a busy machine moves both sides alike; trust the ratios. opendp is asked for
64-bit integers (its default integer has 32 bits and saturates silently); its Gaussian is the discrete Gaussian.
"""

from __future__ import annotations

import argparse
import gc
import time
from collections.abc import Callable
from fractions import Fraction

import numpy as np
import opendp.prelude as dp
from scipy import stats

from steelyard.noise import ExactNoise
from steelyard.noise._finite import FiniteTable

SCALES = {
    "1": Fraction(1),
    "10": Fraction(10),
    "1e3": Fraction(10**3),
    "1e6": Fraction(10**6),
    "2^40": Fraction(1 << 40),
}
GOAL, SCALAR_GOAL, LABEL_GOAL = 50, 10.0, 10.0


def rate(draw: Callable[[], object], size: int, repeats: int = 3) -> float:
    """Draws per CPU-second, best of a few."""
    draw()
    best = 0.0
    for _ in range(repeats):
        start = time.process_time()
        draw()
        best = max(best, size / (time.process_time() - start))
    return best


def theirs(kind: str, scale: Fraction, size: int) -> Callable[[], object]:
    """opendp's vector mechanism on zeros."""
    domain = dp.vector_domain(dp.atom_domain(T="i64"))
    if kind == "laplace":
        mechanism = dp.m.make_laplace(domain, dp.l1_distance(T="i64"), scale=float(scale))
    else:
        mechanism = dp.m.make_gaussian(domain, dp.l2_distance(T="f64"), scale=float(scale))
    zeros = [0] * size
    return lambda: mechanism(zeros)


def compare(size: int, their_size: int) -> None:
    """Throughput of both libraries at several scales."""
    noise = ExactNoise()
    print(f"\n{'noise':<8} {'scale':>5} {'ours M/s':>9} {'opendp M/s':>11} {'ratio':>7}   goal >= {GOAL}")
    for kind in ("laplace", "normal"):
        draw = noise.laplace_array if kind == "laplace" else noise.normal_array
        for name, scale in SCALES.items():
            ours = rate(lambda draw=draw, scale=scale: draw(scale, size), size)  # type: ignore[misc]
            other = rate(theirs(kind, scale, their_size), their_size)
            verdict = "ok" if ours / other >= GOAL else "MISSED"
            print(f"{kind:<8} {name:>5} {ours / 1e6:>9.2f} {other / 1e6:>11.3f} {ours / other:>7.0f}   {verdict}")


def scalar(count: int) -> None:
    """Microseconds of CPU time for one draw of size 1."""
    noise = ExactNoise()
    print(f"\n{'noise':<8} {'scale':>5} {'us/draw':>8}   goal <= {SCALAR_GOAL:g}")
    for kind, draw in (("laplace", noise.laplace), ("normal", noise.normal)):
        for name, scale in {**SCALES, "2^60": Fraction(1 << 60), "1/3": Fraction(1, 3)}.items():

            def many(draw: Callable[[Fraction, int], list[int]] = draw, scale: Fraction = scale) -> None:
                for _ in range(count):
                    draw(scale, 1)

            cost = 1e6 / rate(many, count)
            print(f"{kind:<8} {name:>5} {cost:>8.2f}   {'ok' if cost <= SCALAR_GOAL else 'MISSED'}")


def timing(name: str, draw: Callable[[], int], count: int) -> None:
    """How much the time of one draw says about its absolute value."""
    took, size = np.empty(count), np.empty(count)
    clock = time.perf_counter_ns
    gc.disable()
    for i in range(count):
        start = clock()
        value = draw()
        took[i], size[i] = clock() - start, abs(value)
    gc.enable()
    rho = stats.spearmanr(took, size).statistic
    low, high = np.quantile(size, [0.25, 0.75])
    gap = np.median(took[size >= high]) - np.median(took[size <= low])
    print(f"{name:<28} {np.median(took) / 1000:>9.2f} {rho:>+9.4f} {gap:>+12.0f}")


def timings(count: int) -> None:
    """The timing table: bulk calls of one draw, and the scalar path."""
    noise, scale = ExactNoise(), Fraction(10**6)
    print(f"\n{'one draw, scale 1e6':<28} {'median us':>9} {'Spearman':>9} {'quartiles ns':>12}   ({count} draws)")
    timing("laplace_array(scale, 1)", lambda: int(noise.laplace_array(scale, 1)[0]), count)
    timing("normal_array(sigma, 1)", lambda: int(noise.normal_array(scale, 1)[0]), count)
    timing("laplace(scale, 1)", lambda: noise.laplace(scale, 1)[0], count)
    timing("normal(sigma, 1)", lambda: noise.normal(scale, 1)[0], count)
    domain = dp.atom_domain(T="i64"), dp.absolute_distance(T="i64")
    opendp = dp.m.make_laplace(*domain, scale=float(scale))
    timing("opendp laplace", lambda: int(opendp(0)), min(count, 20_000))


def labels(size: int) -> None:
    """Randomized labels per CPU-second from exact tables."""
    noise = ExactNoise()
    print(f"\n{'labels':<8} {'classes':>7} {'M/s':>8}   goal >= {LABEL_GOAL:g}")
    for classes in (2, 16, 64, 256):
        share = (1 << 32) // (classes + 2)
        stay = (1 << 32) - (classes - 1) * share
        table = FiniteTable([[stay if i == j else share for j in range(classes)] for i in range(classes)])
        inputs = np.arange(size) % classes
        speed = rate(lambda table=table, inputs=inputs: table.draw(inputs, noise), size)  # type: ignore[misc]
        print(f"{'finite':<8} {classes:>7} {speed / 1e6:>8.1f}   {'ok' if speed / 1e6 >= LABEL_GOAL else 'MISSED'}")


def main() -> None:
    """Run everything and print the tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--quick", action="store_true", help="a tenth of the work")
    part = 10 if parser.parse_args().quick else 1
    dp.enable_features("contrib")
    compare(4_000_000 // part, 50_000 // part)
    scalar(20_000 // part)
    labels(10_000_000 // part)
    timings(100_000 // part)


if __name__ == "__main__":
    main()
