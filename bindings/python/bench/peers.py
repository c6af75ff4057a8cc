"""Gradients of the same functions by dualvm and by other libraries, side by side: the first one, with whatever has to be
traced, compiled or built before, and one of many, the least of several rounds.

    pip install jax casadi autograd torch        # those that one wants
    python bindings/python/bench/peers.py [FILE.md]

What isn't installed is left out, with a word. Every value and every gradient is compared with dualvm's. With a file's name,
the table is written there as Markdown.
"""

import importlib.metadata
import math
import platform
import sys
import time
import warnings

import numpy as np

import dualvm

warnings.filterwarnings("ignore")

PROGRAM = """
def rosenbrock (x : Array Real) : Real =
  loop acc = 0.0 for i < length x - 1 do
    acc + 100 * (x[i + 1] - x[i] ^ 2) ^ 2 + (1 - x[i]) ^ 2

def logistic (w : Array Real) (points : Matrix Real) (signs : Array Real) : Real =
  loop total = 0.0 for i < rows points do
    let z = loop z = 0.0 for j < columns points do z + points[i, j] * w[j] in
    total + softplus (0 - signs[i] * z)

def ode (p : Array Real) (steps : Int) (h : Real) : Real =
  let (x, v, misfit) =
    loop (x, v, misfit) = (1.0, 0.0, 0.0) for i < steps do
      let a = 0 - p[0] * x - p[1] * v - p[2] * x ^ 3 in
      let v = v + h * a in
      let x = x + h * v in
      (x, v, misfit + (x - exp (0 - h * to_real i)) ^ 2) in
  misfit
"""

SOURCE = np.random.default_rng(1)
POINTS, WEIGHTS = SOURCE.normal(size=(1000, 20)), SOURCE.normal(size=20)
SIGNS = np.sign(POINTS @ WEIGHTS + SOURCE.normal(size=1000))
STEPS, H = 1000, 0.01

# What each is the gradient of, by name: a function of an array, as a library's own arrays compute it.
CASES = {
    "Rosenbrock, 10 variables": np.linspace(-1.2, 1.3, 10),
    "Rosenbrock, 1,000 variables": np.linspace(-1.2, 1.3, 1000),
    "logistic regression, 1,000 × 20": 0.1 * WEIGHTS,
    "ODE, 1,000 steps, 3 parameters": np.array([1.5, 0.3, 0.2]),
}


def kind(name):
    return name.split(",")[0].split()[0]


def with_dualvm():
    def make(name):
        # A module of its own, so that the first gradient is one.
        module = dualvm.load(PROGRAM)
        if kind(name) == "Rosenbrock":
            return module.rosenbrock.value_and_grad
        if kind(name) == "logistic":
            f = module.logistic.wrt("w")
            return lambda w: f.value_and_grad(w, POINTS, SIGNS)
        f = module.ode.wrt("p")
        return lambda p: f.value_and_grad(p, STEPS, H)

    return dualvm.__version__, make


def formulas(name, np, loop=None):
    """The function as a library with arrays like NumPy's writes it, and the loop of the ODE, if it has one of its own."""
    if kind(name) == "Rosenbrock":
        return lambda x: np.sum(100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2)
    if kind(name) == "logistic":
        return lambda w: np.sum(np.logaddexp(0.0, -SIGNS * np.dot(POINTS, w)))

    def step(state, i, p):
        x, v, misfit = state
        v = v + H * (-p[0] * x - p[1] * v - p[2] * x**3)
        x = x + H * v
        return x, v, misfit + (x - np.exp(-H * i)) ** 2

    def ode(p):
        if loop is not None:
            return loop(step, p)
        state = (1.0, 0.0, 0.0)
        for i in range(STEPS):
            state = step(state, i, p)
        return state[2]

    return ode


def with_jax():
    import jax

    jax.config.update("jax_enable_x64", True)

    def loop(step, p):
        start = (1.0, 0.0, 0.0)
        rounds = jax.numpy.arange(STEPS, dtype=float)
        return jax.lax.scan(lambda state, i: (step(state, i, p), None), start, rounds)[0][2]

    def make(name):
        f = jax.jit(jax.value_and_grad(formulas(name, jax.numpy, loop)))

        def call(x):
            value, gradient = f(x)
            return float(value), np.asarray(gradient)

        return call

    return jax.__version__, make


def with_autograd():
    import autograd
    import autograd.numpy

    def make(name):
        return autograd.value_and_grad(formulas(name, autograd.numpy))

    return importlib.metadata.version("autograd"), make


def with_torch():
    import torch

    points, signs = torch.from_numpy(POINTS), torch.from_numpy(SIGNS)

    def make(name):
        if kind(name) == "logistic":
            def f(w):
                return torch.nn.functional.softplus(-signs * (points @ w), threshold=1e9).sum()
        elif kind(name) == "Rosenbrock":
            def f(x):
                return (100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2).sum()
        else:
            def f(p):
                x, v, misfit = 1.0, 0.0, 0.0
                for i in range(STEPS):
                    v = v + H * (-p[0] * x - p[1] * v - p[2] * x**3)
                    x = x + H * v
                    misfit = misfit + (x - math.exp(-H * i)) ** 2
                return misfit

        def call(x):
            x = torch.tensor(x, requires_grad=True)
            value = f(x)
            value.backward()
            return value.item(), x.grad.numpy()

        return call

    return torch.__version__, make


def with_casadi():
    import casadi

    def make(name):
        start = CASES[name]
        # Operations on scalars where there are loops, on matrices where there is a product.
        symbols = casadi.MX if kind(name) == "logistic" else casadi.SX
        x = symbols.sym("x", len(start))
        if kind(name) == "Rosenbrock":
            value = casadi.sumsqr(10 * (x[1:] - x[:-1] ** 2)) + casadi.sumsqr(1 - x[:-1])
        elif kind(name) == "logistic":
            z = -casadi.DM(SIGNS) * casadi.mtimes(casadi.DM(POINTS), x)
            value = casadi.sum1(casadi.log1p(casadi.exp(z)))
        else:
            y, v, value = 1.0, 0.0, 0.0
            for i in range(STEPS):
                v = v + H * (-x[0] * y - x[1] * v - x[2] * y**3)
                y = y + H * v
                value = value + (y - math.exp(-H * i)) ** 2
        f = casadi.Function("f", [x], [value, casadi.gradient(value, x)])

        def call(x):
            value, gradient = f(x)
            return float(value), np.asarray(gradient).ravel()

        return call

    return casadi.__version__, make


PEERS = {
    "dualvm": with_dualvm,
    "JAX (jit)": with_jax,
    "CasADi": with_casadi,
    "PyTorch": with_torch,
    "autograd": with_autograd,
}


def measure(make, name):
    """The time of the first gradient in s, that of one of many, and what they are."""
    x = CASES[name]
    began = time.perf_counter()
    call = make(name)
    found = call(x)
    first = time.perf_counter() - began
    once, until = math.inf, time.perf_counter() + 1.0
    rounds = 0
    while rounds < 20 or (time.perf_counter() < until and rounds < 100_000):
        began = time.perf_counter()
        call(x)
        once = min(once, time.perf_counter() - began)
        rounds += 1
        if rounds >= 3 and time.perf_counter() > until + 4:
            break
    return first, once, found


def shown(seconds):
    for unit, scale in (("s", 1), ("ms", 1e3), ("µs", 1e6)):
        if seconds * scale >= 1 or unit == "µs":
            return f"{seconds * scale:.3g} {unit}"


def machine():
    model = platform.processor() or platform.machine()
    try:
        with open("/proc/cpuinfo") as lines:
            model = next(line.split(":")[1].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        pass
    return f"{model}, Python {platform.python_version()}, NumPy {np.__version__}"


def main():
    times, versions, expected = {}, {}, {}
    for peer, load in PEERS.items():
        try:
            versions[peer], make = load()
        except ImportError as error:
            print(f"left out: {peer} ({error})", file=sys.stderr)
            continue
        for name in CASES:
            first, once, (value, gradient) = measure(make, name)
            print(f"{peer:10} {name:34} first {shown(first):>9}, then {shown(once):>9}", file=sys.stderr)
            if peer == "dualvm":
                expected[name] = value, gradient
            of_value, of_gradient = expected[name]
            scale = np.abs(of_gradient).max()
            if not (math.isclose(value, of_value, rel_tol=1e-9) and np.abs(gradient - of_gradient).max() < 1e-8 * scale):
                sys.exit(f"{peer}, {name}: {value} and {gradient}, expected {of_value} and {of_gradient}")
            times[peer, name] = f"{shown(first)}, {shown(once)}"
    lines = ["| first gradient, one of many | " + " | ".join(f"{peer} {version}" for peer, version in versions.items())]
    lines.append("|---" * (len(versions) + 1))
    lines += [f"| {name} | " + " | ".join(times[peer, name] for peer in versions) for name in CASES]
    table = "\n".join(line + " |" for line in lines)
    print(table)
    print(machine())
    if len(sys.argv) > 1:
        with open(sys.argv[1], "w") as file:
            file.write(f"{table}\n\n{machine()}.\n")


if __name__ == "__main__":
    main()
