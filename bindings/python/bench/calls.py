"""What a call costs, from Python: the least time of a call, in ns, of many rounds.

    python bindings/python/bench/calls.py

Beside them stands what comparable calls of Python's own and of NumPy's take on the same machine at the same time.
"""

import math
import time

import numpy as np

import dualvm


def least(call, rounds=200):
    """The least time of a call in ns: rounds of some 0.2 ms each, the best one."""
    once = math.inf
    for _ in range(20):
        start = time.perf_counter_ns()
        call()
        once = min(once, time.perf_counter_ns() - start)
    count = int(max(1, min(2000, 200_000 // max(once, 50))))
    numbers = range(count)
    best = math.inf
    for _ in range(rounds):
        start = time.perf_counter_ns()
        for _ in numbers:
            call()
        best = min(best, (time.perf_counter_ns() - start) / count)
    return best


def main():
    # Native code from the first call on, so that it isn't compiled in the middle of a round.
    engine = dualvm.Engine(native="always")

    def program(text):
        return dualvm.compile(text, engine=engine)

    mult = program("def mult (x : Real) (y : Real) : Real = x * y")
    first = program("def first (xs : Array Real) : Real = xs[0]")
    scaled = program("def scaled (xs : Array Real) (k : Real) = [| k * x for x in xs |]")
    pair = program("def pair (p : { a : Real, b : Real }) : Real = p.a * p.b")
    loss = program(
        "def loss (a : Real) (b : Real) (ps : Array (Real, Real)) : Real = sum [| (a + b * x - y) ^ 2 for (x, y) in ps |]"
    ).wrt(["a", "b"])
    points = [(n / 1000, n % 7) for n in range(1000)]
    of_points = loss.bind(ps=points)
    small, large = np.arange(1.0, 9.0), np.arange(1.0, 1e6 + 1)
    as_list, record = small.tolist(), {"a": 1.0, "b": 2.0}
    copy = np.empty_like(large)

    rows = [
        ("loop with an empty call", lambda: None, 200),
        ("math.hypot(x, y)", lambda: math.hypot(3.0, 4.0), 200),
        ("np.add(x, y)", lambda: np.add(3.0, 4.0), 200),
        ("mult(x, y)", lambda: mult(3.0, 4.0), 200),
        ("mult(x=x, y=y)", lambda: mult(x=3.0, y=4.0), 200),
        ("mult.value_and_grad(x, y)", lambda: mult.value_and_grad(3.0, 4.0), 200),
        ("np.sum(8 reals)", lambda: np.sum(small), 200),
        ("first(8 reals, an array)", lambda: first(small), 200),
        ("first(8 reals, a list)", lambda: first(as_list), 200),
        ("first.value_and_grad(8 reals)", lambda: first.value_and_grad(small), 200),
        ("scaled(8 reals, k)", lambda: scaled(small, 2.0), 200),
        ("pair(a dict)", lambda: pair(record), 200),
        ("loss.grad(a, b, 1,000 pairs)", lambda: loss.grad(1.0, 2.0, points), 50),
        ("loss.grad(a, b), the pairs bound", lambda: of_points.grad(1.0, 2.0), 50),
        ("np.copyto of 10^6 reals", lambda: np.copyto(copy, large), 50),
        ("first(10^6 reals)", lambda: first(large), 50),
        ("first.value_and_grad(10^6 reals)", lambda: first.value_and_grad(large), 50),
    ]
    print(f"dualvm {dualvm.__version__}, NumPy {np.__version__}; least time of a call")
    for name, call, rounds in rows:
        print(f"{name:36} {least(call, rounds):12,.0f} ns")
    batches()


def batches():
    """Many gradients of some microseconds each, in a loop and as batches."""
    text = "def f (xs : Array Real) (n : Int) : Real = loop s = 0.0 for i < n do s + sin (s + xs[i % length xs])"
    items = [(np.linspace(0, 1, 10) + n, 200) for n in range(5000)]
    for threads in 1, 2:
        f = dualvm.compile(text, engine=dualvm.Engine(native="always", threads=threads))
        if threads == 1:
            alone = least(lambda: [f.value_and_grad(*item) for item in items], 10) / len(items)
            print(f"{'f.value_and_grad(xs, n)':36} {alone:12,.0f} ns")
        each = least(lambda: f.batch_value_and_grad(items), 10) / len(items)
        print(f"{f'an item of a batch, {threads} threads':36} {each:12,.0f} ns")


if __name__ == "__main__":
    main()
