"""Functions of Python's that programs call."""

import math
import signal
import subprocess
import sys
import textwrap
import threading

import pytest

import dualvm
from dualvm import HostFunction

np = pytest.importorskip("numpy")

GAIN = HostFunction(
    lambda x, w: math.sin(x) * w.sum(),
    "Real -> Array Real -> Real",
    vjp=lambda x, w, y_adj: (math.cos(x) * w.sum() * y_adj, np.full_like(w, math.sin(x) * y_adj)),
)
GAIN_TEXT = """
import host "gain" : Real -> Array Real -> Real
def f (x : Real) (w : Array Real) : Real = 2 * gain x w
"""


def engine(**functions):
    return dualvm.Engine(host_functions=functions, threads=2)


def test_values_and_derivatives_are_those_of_the_functions():
    f = dualvm.compile(GAIN_TEXT, engine=engine(gain=GAIN))
    w = np.array([1.0, 2.0, 4.0])
    assert f(0.5, w) == 2 * math.sin(0.5) * 7
    value, (by_x, by_w) = f.value_and_grad(0.5, w)
    assert (value, by_x) == (2 * math.sin(0.5) * 7, 2 * math.cos(0.5) * 7)
    assert by_w.tolist() == [2 * math.sin(0.5)] * 3
    # The vjp is linear, so it gives the jvp as well.
    _, moved = f.jvp(0.5, w, (1.0, [0.0, 0.0, 1.0]))
    assert moved == pytest.approx(2 * (math.cos(0.5) * 7 + math.sin(0.5)), rel=1e-15)


def test_arguments_and_results_are_objects_of_their_types():
    seen = []

    def host(n, on, xs, ns, ons, x):
        seen.append((n, on, xs, ns, ons, x))
        return ns[::-1], not on, [x, 2 * x], n + 1, (False, True), x

    ty = "(Int, Bool) -> Array Real -> Array Int -> Array Bool -> Real"
    result = "(Array Int, Bool, Array Real, Int, Array Bool, Real)"
    text = f"""
import host "host" : {ty} -> {result}
def f (n : Int) (on : Bool) (xs : Array Real) (ns : Array Int) (ons : Array Bool) (x : Real) =
  host (n, on) xs ns ons x
"""
    f = dualvm.compile(text, engine=engine(host=HostFunction(host, f"{ty} -> {result}")))
    ns, on, xs, n, ons, x = f(3, True, [1.0], [7, 8], [True], 0.5)
    assert (list(ns), on, list(xs), n, list(ons), x) == ([8, 7], False, [0.5, 1.0], 4, [False, True], 0.5)
    (n, on, xs, ns, ons, x) = seen[0]
    assert (type(n), type(on), type(x)) == (int, bool, float)
    assert (xs.dtype, ns.dtype, ons.dtype) == (np.float64, np.int64, np.bool_)
    # They are copies: what the function does with them is its own affair.
    xs[0] = 100.0


PRODUCT_TEXT = """
import host "product" : Matrix Real -> Matrix Real -> Matrix Real
def f (a : Matrix Real) (b : Matrix Real) : Real = let c = product a b in sum [| c[i, 0] * c[i, 0] for i < rows c |]
"""


@pytest.mark.parametrize(
    "derivatives",
    [
        {"vjp": lambda a, b, c_adj: (c_adj @ b.T, a.T @ c_adj)},
        {"jvp": lambda a, b, a_tan, b_tan: a_tan @ b + a @ b_tan},
    ],
)
def test_matrices_are_arrays_of_two_dimensions(derivatives):
    ty = "Matrix Real -> Matrix Real -> Matrix Real"
    product = HostFunction(lambda a, b: a @ b, ty, **derivatives)
    f = dualvm.compile(PRODUCT_TEXT, engine=engine(product=product))
    a, b = np.array([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]), np.array([[0.5, 0.25, 8.0], [-1.0, 2.0, 9.0]])
    c = a @ b
    c_adj = np.zeros_like(c)
    c_adj[:, 0] = 2 * c[:, 0]
    value, (by_a, by_b) = f.value_and_grad(a, b)
    assert value == pytest.approx((c[:, 0] ** 2).sum(), rel=1e-14)
    assert np.allclose(by_a, c_adj @ b.T, rtol=1e-14) and np.allclose(by_b, a.T @ c_adj, rtol=1e-14)
    _, moved = f.jvp(a, b, (np.ones_like(a), np.zeros_like(b)))
    assert moved == pytest.approx((c_adj * (np.ones_like(a) @ b)).sum(), rel=1e-14)
    # A list of lists is a matrix, too, and nothing is one of no rows.
    text = """
import host "odd" : () -> Matrix Real
def f (x : Real) = let m = odd () in (rows m, columns m, x + sum m)
"""
    for given in ([[1.0, 2.0], [3.0, 4.0]], np.ones((0, 3), dtype=np.float32), np.ones((4, 0))):
        odd = HostFunction(lambda given=given: given, "() -> Matrix Real")
        rows, columns, total = dualvm.compile(text, engine=engine(odd=odd))(0.0)
        assert ((rows, columns), total) == (np.shape(given), np.sum(given))


def test_tensors_and_lists_are_objects_of_their_types():
    seen = []

    def host(t, m, xs, ns, ons):
        seen.append((t, m, xs, ns, ons))
        return t[..., ::-1], m.T, list(xs), ns, [not on for on in ons]

    ty = "Tensor3 Real -> (Matrix Int, List Real) -> List Int -> List Bool"
    result = "(Tensor3 Real, Matrix Int, List Real, List Int, List Bool)"
    text = f"""
import host "host" : {ty} -> {result}
def f (t : Tensor3 Real) (m : Matrix Int) (xs : List Real) (ns : List Int) (ons : List Bool) = host t (m, xs) ns ons
"""
    f = dualvm.compile(text, engine=engine(host=HostFunction(host, f"{ty} -> {result}")))
    given = np.arange(4.0).reshape(2, 1, 2)
    t, m, xs, ns, ons = f(given, np.array([[1, 2, 3]]), [0.5], [], [True, False])
    assert np.array_equal(t, given[..., ::-1]) and np.array_equal(m, [[1], [2], [3]])
    assert (list(xs), list(ns), list(ons)) == ([0.5], [], [False, True])
    t, m, xs, ns, ons = seen[0]
    assert (t.shape, m.shape, xs.shape, ns.shape, ons.shape) == ((2, 1, 2), (1, 3), (1,), (0,), (2,))
    assert (t.dtype, m.dtype, ns.dtype, ons.dtype) == (np.float64, np.int64, np.int64, np.bool_)


def test_shapes_that_do_not_fit_are_errors():
    ty = "Matrix Real -> Matrix Real -> Matrix Real"
    turned = HostFunction(lambda a, b: a @ b, ty, vjp=lambda a, b, c_adj: (b @ c_adj.T, a.T @ c_adj))
    f = dualvm.compile(PRODUCT_TEXT, engine=engine(product=turned))
    a, b = np.ones((3, 2)), np.ones((2, 4))
    assert f(a, b) == 12.0
    with pytest.raises(dualvm.Trap, match="function `product`: .* it is of shape 2 × 3, and that is of shape 3 × 2"):
        f.grad(a, b)
    text = "import host \"total\" : Tensor3 Real -> Real\ndef f (t : Tensor3 Real) = total t"
    f = dualvm.compile(text, engine=engine(total=HostFunction(np.sum, "Matrix Real -> Real")))
    with pytest.raises(dualvm.Trap, match="expected Matrix Real, found a tensor of 3 dimensions"):
        f(np.ones((2, 2, 2)))


def test_functions_may_take_and_give_nothing():
    text = """
import host "now" : () -> Real
def f (x : Real) : Real = x + now ()
"""
    f = dualvm.compile(text, engine=engine(now=HostFunction(lambda: 41, "() -> Real")))
    assert f(1.0) == 42.0


def test_what_is_raised_is_the_cause_of_a_trap():
    def picky(x):
        if x < 0:
            raise ValueError(f"{x} is negative")
        if x > 10:
            raise KeyboardInterrupt
        return x

    text = """
import host "picky" : Real -> Real
def inner (x : Real) : Real = 2 * picky x
def f (x : Real) : Real = inner x + 1
"""
    f = dualvm.load(text, engine=engine(picky=HostFunction(picky, "Real -> Real"))).f
    with pytest.raises(dualvm.Trap, match="the host's function `picky`: ValueError: -1.5 is negative") as caught:
        f(-1.5)
    cause = caught.value.__cause__
    assert isinstance(cause, ValueError) and cause.__traceback__.tb_frame.f_code.co_name == "picky"
    assert [place.function for place in caught.value.places][-1] == "f"
    with pytest.raises(KeyboardInterrupt):
        f(11.0)
    with pytest.raises(dualvm.Trap, match="picky.*derivative"):
        f.grad(1.0)
    assert f(1.0) == 3.0


@pytest.mark.parametrize(
    ("ty", "given", "message"),
    [
        ("Real", "x", "result: expected Real, found a str"),
        ("Real", None, "result: expected Real, found None"),
        ("Int", 1.5, "result: expected Int"),
        ("(Real, Int)", (1.0,), r"found 1 part$"),
        ("(Real, Int)", (1.0, 2.5), r"result\.1: expected Int"),
        ("Array Real", [1.0, "x"], r"result\[1\]: expected Real"),
        ("Array Real", [[1.0]], r"result"),
        ("Matrix Real", [1.0], r"result"),
        ("Matrix Real", [[1.0], [1.0, 2.0]], r"result\[1\]: expected 1 elements"),
        ("List Int", [1, 2.5], r"result\[1\]: expected Int"),
        ("Real", 10**400, "result"),
    ],
)
def test_results_of_another_type_are_errors(ty, given, message):
    text = f"""
import host "odd" : Real -> {ty}
def f (x : Real) = odd x
"""
    f = dualvm.compile(text, engine=engine(odd=HostFunction(lambda x: given, f"Real -> {ty}")))
    with pytest.raises(dualvm.Trap) as caught:
        f(1.0)
    with pytest.raises(Exception, match=message):
        raise caught.value.__cause__


def test_derivatives_of_higher_order_are_those_of_derivatives():
    second = HostFunction(
        lambda x, y_adj: 3 * x * x * y_adj,
        "Real -> Real -> Real",
        vjp=lambda x, y_adj, z_adj: (6 * x * y_adj * z_adj, 3 * x * x * z_adj),
    )
    cube = HostFunction(lambda x: x**3, "Real -> Real", vjp=second)
    text = """
import host "cube" : Real -> Real
def f (x : Real) : Real = cube x
def slope (x : Real) : Real = derivative cube x
"""
    module = dualvm.load(text, engine=engine(cube=cube))
    assert module.f.value_and_grad(2.0) == (8.0, 12.0)
    assert module.f.hvp(2.0, tangent=1.0) == 12.0
    assert module.slope.value_and_grad(2.0) == (12.0, 12.0)


def test_threads_and_calls_in_calls():
    inner = dualvm.compile("def inner (x : Real) : Real = (loop s = x for i < 100 do s + 1.0)")
    names = set()

    def host(x):
        names.add(threading.get_ident())
        return inner(x) + inner.grad(x)

    text = """
import host "host" : Real -> Real
def f (n : Int) : Real = sum (pmap (\\i -> host (to_real i)) [| i for i < n |])
"""
    f = dualvm.compile(text, engine=engine(host=HostFunction(host, "Real -> Real")))
    expected = sum(float(n) + 101 for n in range(200))
    assert f(200) == expected
    found = []
    callers = [threading.Thread(target=lambda: found.append(f(200))) for _ in range(4)]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join(60)
    assert found == [expected] * 4


def test_calls_in_calls_end_before_the_stack_does():
    program = textwrap.dedent("""
        import sys, threading
        import dualvm

        def again(x):
            return f(x)

        text = "import host \\"again\\" : Real -> Real\\ndef f (x : Real) : Real = again x + 1"
        again = dualvm.HostFunction(again, "Real -> Real", vjp=lambda x, y_adj: y_adj)
        f = dualvm.compile(text, engine=dualvm.Engine(host_functions={"again": again}))
        sys.setrecursionlimit(10**6)
        def deep(call):
            try:
                call(1.0)
            except dualvm.Trap as error:
                while isinstance(error, dualvm.Trap):
                    error = error.__cause__
                assert isinstance(error, dualvm.LimitError), error
                print("ended")
        deep(f)
        deep(f.grad)
        thread = threading.Thread(target=deep, args=(f,))
        thread.start()
        thread.join()
    """)
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=300)
    assert (done.returncode, done.stdout) == (0, "ended\n" * 3), done.stderr


def test_limits_and_ctrl_c_reach_the_call():
    def interrupted(x):
        signal.raise_signal(signal.SIGINT)
        for _ in range(1000):
            pass
        return x

    text = """
import host "host" : Real -> Real
def f (x : Real) : Real = loop s = x for i < 1000000000 do host s
"""
    f = dualvm.compile(text, engine=engine(host=HostFunction(interrupted, "Real -> Real")))
    with pytest.raises(KeyboardInterrupt):
        f(1.0)
    slow = dualvm.compile(
        text, engine=engine(host=HostFunction(lambda x: x, "Real -> Real")), limits=dualvm.Limits(deadline=0.05)
    )
    with pytest.raises(dualvm.LimitError):
        slow(1.0)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: HostFunction(3, "Real -> Real"), "function: expected a function, found an int"),
        (lambda: HostFunction(abs, "Real"), "type: it has no parameters"),
        (lambda: HostFunction(abs, "Real -> Text"), "type: expected Real, Int, .*, found `Text`"),
        (lambda: HostFunction(abs, "Real -> (Real, (Real, Real))"), "type: expected"),
        (lambda: HostFunction(abs, "List List Real -> Real"), "type: expected .*, found `List List Real`"),
        (lambda: HostFunction(abs, "Matrix Text -> Real"), "type: expected .*, found `Matrix Text`"),
        (lambda: HostFunction(abs, ""), "type: "),
        (lambda: HostFunction(abs, "Real -> Real", vjp=3), "vjp: expected a function, found an int"),
        (lambda: HostFunction(abs, "Real -> Real", vjp=HostFunction(abs, "Real -> Real")), "vjp: "),
        (lambda: HostFunction(abs, "Real -> Real", jvp=HostFunction(abs, "Int -> Int")), "jvp: "),
        (lambda: dualvm.Engine(host_functions={"f": abs}), r'host_functions\["f"\]: expected a dualvm.HostFunction'),
        (lambda: dualvm.Engine(host_functions={1: GAIN}), ""),
        (lambda: dualvm.Engine(host_functions=3), ""),
    ],
)
def test_what_is_no_host_function_is_refused(make, message):
    with pytest.raises((TypeError, ValueError), match=message or None):
        make()


def test_imports_are_checked_when_programs_are_loaded():
    with pytest.raises(dualvm.Error, match="gain"):
        dualvm.compile(GAIN_TEXT)
    with pytest.raises(dualvm.Error, match="gain"):
        dualvm.compile(GAIN_TEXT, engine=engine(gain=HostFunction(abs, "Real -> Real")))
    assert repr(GAIN) == "<dualvm.HostFunction: Real -> Array Real -> Real>"
