"""Batches: what items give is what single calls give, in order; an item that fails, fails alone."""

import os
import signal
import threading
import time
from dataclasses import dataclass

import pytest

import dualvm

np = pytest.importorskip("numpy")

TEXT = """
type Sign = Plus | Minus
def f (xs : Array Real) (n : Int) : Real = loop s = xs[n % 7] for x in xs do s + sin (s * x)
def both (xs : Array Real) (k : Real) = ([| k * x for x in xs |], { sum = k * sum xs, len = length xs })
def signed (sign : Sign) (x : Real) : Real = match sign with | Plus -> x * x | Minus -> -(x * x)
def line (p : { a : Real, b : Real }) (x : Real) : Real = p.a * x + p.b
def spin (n : Int) : Int = loop i = 0 while i < n do i + 1
"""


@pytest.fixture(scope="module")
def module():
    return dualvm.load(TEXT, engine=dualvm.Engine(threads=2))


def same(found, expected):
    """Whether these are the same to the last bit."""
    if isinstance(expected, np.ndarray):
        return isinstance(found, np.ndarray) and found.dtype == expected.dtype and found.tobytes() == expected.tobytes()
    if isinstance(expected, (tuple, list)):
        return len(found) == len(expected) and all(map(same, found, expected))
    if isinstance(expected, dict):
        return found.keys() == expected.keys() and all(same(found[name], expected[name]) for name in expected)
    return type(found) is type(expected) and found == expected


def items(count):
    return [(np.linspace(-1, 1 + n % 3, 5 + 2 * (n % 2)) + n, n) for n in range(count) if n % 2 == 1 or n % 7 < 5]


@pytest.mark.parametrize("count", [0, 1, 3, 1000])
def test_results_are_those_of_single_calls(module, count):
    args = items(count)
    assert same(module.f.batch(args), [module.f(*item) for item in args])
    expected = [module.f.value_and_grad(*item) for item in args]
    assert same(module.f.batch_value_and_grad(args), expected)
    pairs = [(xs, n / 3) for xs, n in args]
    assert same(module.both.batch(iter(pairs)), [module.both(*item) for item in pairs])
    by_name = [{"k": k, "xs": xs} for xs, k in pairs]
    assert same(module.both.batch(by_name), [module.both(*item) for item in pairs])
    # By values of data types, which aren't flat.
    signs = [[sign, n / 7] for n in range(count) for sign in ("Plus", "Minus")]
    assert same(module.signed.batch(signs), [module.signed(*item) for item in signs])
    assert same(module.signed.batch_value_and_grad(signs), [module.signed.value_and_grad(*item) for item in signs])


def test_gradients_are_of_the_form_of_the_arguments(module):
    @dataclass
    class Line:
        a: float
        b: float

    found = module.line.batch_value_and_grad([(Line(1.0, 2.0), 3.0), ({"a": 1.0, "b": 0.0}, 4.0)], wrt="p")
    assert found == [(5.0, Line(3.0, 1.0)), (4.0, {"a": 4.0, "b": 1.0})]


def test_items_that_fail_fail_alone(module):
    args = [([1.0] * 7, 3), ([1.0], 3), ([1.0] * 7, "x"), ([2.0] * 7, 3), 5, ([1.0],)]
    for batch in (module.f.batch, module.f.batch_value_and_grad):
        found = batch(args, errors="return")
        assert [type(outcome) for outcome in found[1:3]] == [dualvm.Trap, dualvm.ArgumentError]
        assert "expected Int" in str(found[2]) and found[2].__notes__ == ["In item 2 of the batch."]
        assert type(found[4]) is TypeError and "found an int (5)" in str(found[4])
        assert type(found[5]) is dualvm.ArgumentError
        assert same(found[0], batch(args[:1])[0]) and same(found[3], batch(args[3:4])[0])
        with pytest.raises(dualvm.Trap, match="index 3 is out of bounds") as caught:
            batch(args)
        assert caught.value.__notes__ == ["In item 1 of the batch."] and caught.value.places[0].line == 3
    with pytest.raises(dualvm.NotScalarError):
        module.both.batch_value_and_grad([([1.0], 2.0)])
    with pytest.raises(ValueError, match="errors: expected"):
        module.f.batch([], errors="ignore")
    with pytest.raises(TypeError):
        module.f.batch(5)
    with pytest.raises(ZeroDivisionError):
        module.f.batch(1 // 0 for _ in range(3))


def test_limits_are_those_of_each_call(module):
    spin = module.spin.with_options(limits=dualvm.Limits(fuel=40_000))
    found = spin.batch([(1000 if n % 10 else 100_000,) for n in range(100)], errors="return")
    assert [isinstance(outcome, dualvm.LimitError) for outcome in found] == [n % 10 == 0 for n in range(100)]


def test_ctrl_c_and_cancelling_end_it(module):
    forever = [(2**62,)] * 4
    handle = dualvm.CancelHandle()
    timer = threading.Timer(0.1, handle.cancel)
    timer.start()
    with pytest.raises(dualvm.Cancelled):
        module.spin.with_options(cancel=handle).batch(forever, errors="return")
    timer = threading.Timer(0.1, os.kill, (os.getpid(), signal.SIGINT))
    timer.start()
    began = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        module.spin.batch(forever, errors="return")
    assert time.monotonic() - began < 20


def test_traces_come_in_order():
    lines = []
    f = dualvm.compile('def f (n : Int) : Int = trace "at {n}" n', trace=lambda text, place: lines.append(text))
    assert f.batch([(n,) for n in range(500)]) == list(range(500))
    assert lines == [f"at {n}" for n in range(500)]

    def raises(text, place):
        raise LookupError(text)

    with pytest.raises(LookupError, match="at 0"):
        f.with_options(trace=raises).batch([(0,), (1,)], errors="return")


def test_functions_of_pythons_may_be_called():
    host = dualvm.HostFunction(lambda x: x + inner.batch([(x,), (1.0,)])[0], "Real -> Real", vjp=lambda x, a: 2 * a)
    inner = dualvm.compile("def inner (x : Real) : Real = x")
    text = 'import host "host" : Real -> Real\ndef f (x : Real) : Real = host x'
    f = dualvm.compile(text, engine=dualvm.Engine(threads=2, host_functions={"host": host}))
    assert f.batch_value_and_grad([(float(n),) for n in range(300)]) == [(2.0 * n, 2.0) for n in range(300)]
