"""Runs that are long, limited, stopped, listened to, or many at a time."""

import os
import signal
import subprocess
import sys
import threading
import time

import pytest

import dualvm

FOREVER = "def forever (x : Real) : Real = loop y = x while y < 1e300 do (y + x) / 2"


def test_limits_of_calls():
    f = dualvm.compile(FOREVER)
    for limits in (dualvm.Limits(fuel=1000), dualvm.Limits(deadline=0.02)):
        strict = f.with_options(limits=limits)
        for call in (strict, strict.grad, strict.hessian, strict.record):
            with pytest.raises(dualvm.LimitError) as error:
                call(1.0)
            assert error.value.limit in ("fuel", "deadline")
            assert error.value.places[0].function == "forever"
    assert "1 | def forever" in str(error.value) and "^" in str(error.value)
    engine = dualvm.Engine(limits=dualvm.Limits(fuel=1000), threads=1)
    with pytest.raises(dualvm.LimitError):
        dualvm.compile(FOREVER, engine=engine)(1.0)


def test_options_go_from_a_module_to_its_functions():
    limits, handle, lines = dualvm.Limits(fuel=1000), dualvm.CancelHandle(), []
    text = FOREVER + '\ndef said (x : Real) : Real = trace "here" x'
    options = {"limits": limits, "cancel": handle, "trace": lambda text, place: lines.append(text)}
    module = dualvm.load(text, **options)
    of_compiled = dualvm.compile(text, "said", **options).module
    forever = module.forever
    for f in (forever, module["forever"], module.function("forever"), forever.wrt("x"), of_compiled.forever):
        for call in (f, f.grad, f.record):
            with pytest.raises(dualvm.LimitError) as error:
                call(1.0)
            assert error.value.limit == "fuel"
    assert module.said(1.0) == of_compiled.said(2.0) / 2 == 1.0 and lines == ["here", "here"]
    handle.cancel()
    for f in (module.forever, of_compiled.said):
        with pytest.raises(dualvm.Cancelled):
            f(1.0)


def test_with_options_replaces_what_is_named():
    handle, lines = dualvm.CancelHandle(), []
    text = 'def f (x : Real) : Real = loop y = trace "here" x while y < 1e300 do (y + x) / 2'
    options = {"limits": dualvm.Limits(fuel=1000), "cancel": handle, "trace": lambda text, place: lines.append(text)}
    f = dualvm.compile(text, wrt="x", **options)
    for g in (f.with_options(), f.with_options(limits=...), f.with_options(trace=None), f.with_options(cancel=None)):
        assert g.selected_parameters == "x"
        with pytest.raises(dualvm.LimitError, match="fuel"):
            g(1.0)
    assert lines == ["here"] * 3
    with pytest.raises(dualvm.LimitError) as error:
        f.with_options(limits=dualvm.Limits(deadline=0.01))(1.0)
    assert error.value.limit == "deadline" and lines == ["here"] * 4
    handle.cancel()
    for g in (f, f.with_options(limits=None), f.with_options(trace=None)):
        with pytest.raises(dualvm.Cancelled):
            g(1.0)
    with pytest.raises(dualvm.LimitError):
        f.with_options(cancel=None)(1.0)
    with pytest.raises(TypeError, match="limits"):
        f.with_options(limits=3)


def test_limits_of_compilations():
    text = "def f (x : Real) : Real = " + " + ".join(["x"] * 100_000)
    with pytest.raises(dualvm.LimitError) as error:
        dualvm.compile(text, limits=dualvm.Limits(source_bytes=1000))
    assert error.value.limit == "source_bytes"
    with pytest.raises(dualvm.LimitError):
        dualvm.load(text, limits=dualvm.Limits(untrusted=True))


def test_a_handle_cancels_from_another_thread():
    handle = dualvm.CancelHandle()
    f = dualvm.compile(FOREVER).with_options(cancel=handle)
    threading.Timer(0.1, handle.cancel).start()
    with pytest.raises(dualvm.Cancelled):
        f(1.0)
    assert handle.cancelled and "cancelled" in repr(handle)
    with pytest.raises(dualvm.Cancelled):
        f(1.0)
    with pytest.raises(dualvm.Cancelled):
        dualvm.compile(FOREVER, cancel=handle)
    handle = dualvm.CancelHandle()
    g = dualvm.compile(FOREVER, cancel=handle)
    outcome = []

    def run():
        try:
            g(1.0)
        except dualvm.Error as error:
            outcome.append(type(error))

    thread = threading.Thread(target=run)
    thread.start()
    time.sleep(0.05)
    handle.cancel()
    thread.join()
    assert outcome == [dualvm.Cancelled]


def test_traps_have_places():
    text = """def third (xs : Array Real) : Real = xs[2]

def f (x : Real) : Real = if x < 0 then error "no" else third [| x |]"""
    f = dualvm.load(text, file="third.dual").f
    with pytest.raises(dualvm.Trap) as error:
        f(1.0)
    assert error.value.places[0] == dualvm.Place("third.dual", 1, 38, "third")
    assert error.value.summary == "index 2 is out of bounds of an array of length 1"
    with pytest.raises(dualvm.Trap, match="no"):
        f.grad(-1.0)
    with pytest.raises(dualvm.CompileError) as error:
        dualvm.compile("def f (x : Real) : Real =\n  sqr x + z")
    assert [(place.line, place.column) for place in error.value.places] == [(2, 3), (2, 11)]
    assert error.value.summary == error.value.places[0].message == "unknown name `sqr`"


def test_traces_come_in_order_and_may_raise():
    text = 'def f (n : Int) : Real = loop s = 0.0 for i < n do trace "round {i}" (s + 1)'
    lines = []
    f = dualvm.compile(text, trace=lambda text, place: lines.append((text, place.line)))
    assert f(3) == 3.0 and lines == [("round 0", 1), ("round 1", 1), ("round 2", 1)]

    def stop(text, place):
        if text == "round 5":
            raise KeyError(text)

    g = f.with_options(trace=stop)
    for _ in range(2):
        with pytest.raises(KeyError, match="round 5"):
            g(10**9)
        assert g(3) == 3.0
    inner = dualvm.compile("def square (x : Real) : Real = x * x")
    squares = []
    assert f.with_options(trace=lambda text, place: squares.append(inner(len(squares))))(4) == 4.0
    assert squares == [0, 1, 4, 9]


def test_whatever_a_trace_raises_ends_the_call():
    text = 'def f (x : Real) : Real = let y = trace "here" x in y * y'
    for raised in (dualvm.Cancelled("mine"), dualvm.LimitError("mine"), KeyboardInterrupt("mine"), SystemExit("mine")):
        calls = []

        def stop(text, place):
            calls.append(text)
            raise raised if len(calls) < 3 else AssertionError("the call goes on")

        f = dualvm.compile(text, trace=stop)
        for call in (f, f.grad, f.record, f.hessian):
            calls.clear()
            with pytest.raises(type(raised)) as error:
                call(1.0)
            assert error.value is raised and calls == ["here"]


def test_threads_call_one_function():
    f = dualvm.compile("def f (xs : Array Real) : Real = loop s = 0.0 for x in xs do s + sin x * x")
    xs = [[float(n + k) for k in range(50)] for n in range(8)]
    expected = [f.value_and_grad(x) for x in xs]
    wrong = []

    def run(n):
        for _ in range(200):
            value, gradient = f.value_and_grad(xs[n])
            if value != expected[n][0] or list(gradient) != list(expected[n][1]):
                wrong.append(n)

    threads = [threading.Thread(target=run, args=(n,)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_the_interpreter_goes_on_during_a_run():
    f = dualvm.compile(FOREVER, limits=dualvm.Limits(deadline=0.5))
    rounds = 0
    thread = threading.Thread(target=lambda: pytest.raises(dualvm.LimitError, f, 1.0))
    thread.start()
    while thread.is_alive():
        rounds += 1
        time.sleep(0.001)
    assert rounds > 10


def test_a_pullback_is_one_threads_at_a_time():
    f = dualvm.compile("def f (xs : Array Real) : Real = loop s = 0.0 for x in xs do s + sin (x * s)")
    value, pullback = f.record([1.0] * 300_000)
    expected, busy, wrong = list(pullback(1.0)[:10]), [], []

    def run():
        for _ in range(20):
            try:
                if list(pullback(1.0)[:10]) != expected:
                    wrong.append(True)
            except dualvm.BusyError:
                busy.append(True)

    threads = [threading.Thread(target=run) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong and list(pullback(1.0)[:10]) == expected


def run_and_interrupt(program, *signals):
    """Runs a program in a process of its own, and sends it signals once it says that it is ready."""
    child = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True)
    ends = threading.Timer(60, child.kill)
    ends.start()
    try:
        assert child.stdout.readline() == "ready\n"
        for after, number in signals:
            time.sleep(after)
            child.send_signal(number)
        rest = child.stdout.read()
        return rest, child.wait()
    finally:
        ends.cancel()
        child.kill()
        child.stdout.close()
        child.wait()


posix = pytest.mark.skipif(os.name != "posix", reason="signals are sent as POSIX has them")


@posix
@pytest.mark.parametrize("call", ["f", "f.grad", "f.record", "f.hessian"])
@pytest.mark.parametrize("handle", ["None", "dualvm.CancelHandle()"])
@pytest.mark.parametrize("after", [0.0, 0.3])
def test_ctrl_c_ends_a_run(call, handle, after):
    program = f"""
import dualvm
f = dualvm.compile({FOREVER!r}, cancel={handle})
try:
    print("ready", flush=True)
    {call}(1.0)
except KeyboardInterrupt:
    print("interrupted", dualvm.compile("def g (x : Real) : Real = 2 * x").grad(1.0))
"""
    assert run_and_interrupt(program, (after, signal.SIGINT)) == ("interrupted 2.0\n", 0)


@posix
def test_ctrl_c_after_the_handler_was_replaced():
    program = f"""
import dualvm, signal
f = dualvm.compile({FOREVER!r})
def handler(number, frame):
    raise ValueError("mine")
signal.signal(signal.SIGINT, handler)
try:
    print("ready", flush=True)
    f(1.0)
except ValueError as error:
    print(error)
"""
    assert run_and_interrupt(program, (0.4, signal.SIGINT)) == ("mine\n", 0)


@posix
def test_a_handler_that_raises_nothing_lets_the_call_begin_anew():
    program = """
import dualvm, signal
text = 'def f (n : Int) : Real = loop s = 0.0 for i < n do s + sin (to_real i)'
f = dualvm.compile(text)
seen = []
expected = f(5_000_000)
signal.signal(signal.SIGINT, lambda number, frame: seen.append(number))
print("ready", flush=True)
while not seen:
    assert f.record(5_000_000)[0] == f(5_000_000) == expected
print(len(seen))
"""
    assert run_and_interrupt(program, (0.4, signal.SIGINT)) == ("1\n", 0)


@posix
def test_ctrl_c_where_it_is_ignored():
    program = f"""
import signal
signal.signal(signal.SIGINT, signal.SIG_IGN)
import dualvm
f = dualvm.compile({FOREVER!r}, limits=dualvm.Limits(deadline=1.0))
print("ready", flush=True)
try:
    f(1.0)
except dualvm.LimitError as error:
    print(error.limit)
"""
    assert run_and_interrupt(program, (0.2, signal.SIGINT)) == ("deadline\n", 0)


@posix
def test_the_child_of_a_fork_runs_and_is_interrupted():
    program = f"""
import dualvm, os, signal, time
f = dualvm.compile({FOREVER!r}, limits=dualvm.Limits(deadline=30.0))
g = dualvm.compile("def g (x : Real) : Real = 2 * x")
assert g(1.0) == 2.0
child = os.fork()
if child == 0:
    try:
        assert g(2.0) == 4.0
        f(1.0)
    except KeyboardInterrupt:
        os._exit(7)
    os._exit(1)
print("ready", flush=True)
time.sleep(0.5)
os.kill(child, signal.SIGINT)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""
    assert run_and_interrupt(program) == ("7\n", 0)


@posix
def test_a_thread_forks_while_another_runs():
    program = f"""
import dualvm, os, signal, threading, time
handle = dualvm.CancelHandle()
f = dualvm.compile({FOREVER!r}, limits=dualvm.Limits(deadline=1.5))
g = dualvm.compile("def g (x : Real) : Real = 2 * x")

def fork():
    time.sleep(0.3)
    child = os.fork()
    if child == 0:
        threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT)).start()
        try:
            f(1.0)
        except KeyboardInterrupt:
            # The handle is one of the parent's main thread.
            os._exit(7 if not handle.cancelled and g.with_options(cancel=handle)(1.0) == 2.0 else 8)
        os._exit(9)
    ends.append(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))

ends = []
thread = threading.Thread(target=fork)
thread.start()
print("ready", flush=True)
try:
    f.with_options(cancel=handle)(1.0)
except dualvm.LimitError:
    thread.join()
    print(*ends)
"""
    assert run_and_interrupt(program) == ("7\n", 0)


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="it knows how glibc and musl describe a handler")
@pytest.mark.parametrize("found", ["more than a number", "none", "Python's"])
def test_a_handler_that_ours_could_not_call_is_left_alone(found):
    """Before Python's own goes ours, and has its flags."""
    program = f"""
import ctypes, signal

class Action(ctypes.Structure):
    _fields_ = [("handler", ctypes.c_size_t), ("mask", ctypes.c_ubyte * 128),
                ("flags", ctypes.c_int), ("restorer", ctypes.c_void_p)]

libc = ctypes.CDLL(None)
SA_RESTART, SA_SIGINFO = 0x10000000, 4

def action(new=None):
    old = Action()
    assert libc.sigaction(signal.SIGINT, new and ctypes.byref(new), ctypes.byref(old)) == 0
    return old

pythons = action()
given = Action(pythons.handler, pythons.mask, pythons.flags, None)
if {found!r} == "none":
    given.handler = signal.SIG_IGN
elif {found!r} == "Python's":
    given.flags |= SA_RESTART
else:
    given.handler, given.flags = ctypes.cast(libc.abort, ctypes.c_void_p).value, given.flags | SA_SIGINFO
action(given)
import dualvm
f = dualvm.compile({FOREVER!r}, limits=dualvm.Limits(deadline=0.3))
print("ready", flush=True)
try:
    f(1.0)
except dualvm.LimitError:
    now = action()
    print(now.handler == given.handler, (now.flags ^ given.flags) & (SA_RESTART | SA_SIGINFO))
"""
    alone = found != "Python's"
    assert run_and_interrupt(program) == (f"{alone} 0\n", 0)


@posix
def test_ctrl_c_ends_a_trace():
    program = """
import dualvm, os, signal
def listen(text, place):
    if text == "5":
        os.kill(os.getpid(), signal.SIGINT)
f = dualvm.compile('def f (n : Int) : Real = loop s = 0.0 for i < n do trace "{i}" (s + 1)', trace=listen)
print("ready", flush=True)
try:
    f(10**9)
except KeyboardInterrupt:
    print("interrupted")
"""
    assert run_and_interrupt(program) == ("interrupted\n", 0)


@posix
def test_runs_in_each_other_are_interrupted_together():
    program = f"""
import dualvm, os, signal
inner = dualvm.compile({FOREVER!r})
double = dualvm.compile("def double (x : Real) : Real = 2 * x")
handle = dualvm.CancelHandle()
def listen(text, place):
    try:
        inner(1.0)
    except KeyboardInterrupt:
        assert double(2.0) == 4.0
        handle.cancel()
        assert double(2.0) == 4.0
        raise
text = 'def outer (n : Int) : Real = loop s = 0.0 for i < n do trace "x" (s + 1)'
try:
    print("ready", flush=True)
    dualvm.compile(text, trace=listen, cancel=handle)(10**9)
except KeyboardInterrupt:
    print("interrupted", double(3.0))
"""
    assert run_and_interrupt(program, (0.3, signal.SIGINT)) == ("interrupted 6.0\n", 0)
