"""Calls: what goes in, what comes out, and by which names."""

import array
import copy
import dataclasses
import inspect
import pathlib
import pickle
import subprocess
import sys
import typing
from collections import namedtuple

import pytest

import dualvm

np = pytest.importorskip("numpy")

SCALED = "def scaled (xs : Array Real) (k : Real) = [| k * x for x in xs |]"
SUM = "def total (xs : Array Real) : Real = loop s = 0.0 for x in xs do s + x"


def test_arguments_come_by_place_and_by_name():
    f = dualvm.compile("def f (x : Real) (n : Int) (b : Bool) : Real = if b then x * to_real n else x")
    assert f(2, 3, True) == 6.0 and isinstance(f(2, 3, True), float)
    assert f(2.0, b=False, n=3) == f(b=False, n=3, x=2.0) == 2.0
    for args, kwargs, said in [
        ((1, 2), {}, "`f` is not given the argument `b : Bool`"),
        ((1, 2, True, 4), {}, "expected 3 arguments (x : Real, n : Int, b : Bool), found 4"),
        ((1, 2, True), {"x": 1}, "`f` is given the argument `x` twice"),
        ((1, 2), {"c": True}, "`f` has no parameter `c`; it has x, n, b"),
    ]:
        with pytest.raises(dualvm.ArgumentError) as error:
            f(*args, **kwargs)
        assert str(error.value) == said


def test_a_function_says_what_it_is():
    f = dualvm.compile("def f (x : Real) (in' : Array Int) : Real = x")
    assert repr(f) == "<dualvm.Function f : (x : Real, in' : Array Int) -> Real>"
    assert f.__name__ == f.__qualname__ == "f"
    assert f.parameters == (("x", "Real"), ("in'", "Array Int")) and f.result_type == "Real"
    assert str(inspect.signature(f)) == "(x: 'Real', in_: 'Array Int', /) -> 'Real'"
    g = dualvm.compile(SCALED)
    assert list(inspect.signature(g).parameters) == ["xs", "k"]
    assert callable(g)


@pytest.mark.parametrize(
    "make",
    [
        list,
        tuple,
        np.array,
        lambda xs: array.array("d", xs),
        lambda xs: memoryview(array.array("d", xs)),
        lambda xs: np.array(xs, dtype=np.float32),
        lambda xs: np.array(xs, dtype=np.int8),
        lambda xs: np.array(xs, dtype=np.uint64),
        lambda xs: np.repeat(np.array(xs, dtype=float), 2)[::2],
        lambda xs: np.array(xs[::-1], dtype=float)[::-1],
        lambda xs: np.array(xs, dtype=object),
        lambda xs: np.frombuffer(b"\0" + np.array(xs, dtype=float).tobytes(), offset=1, dtype=float),
    ],
)
def test_reals_come_in_many_forms(make):
    f = dualvm.compile(SCALED)
    result = f(make([1, 2, 3]), 2)
    assert isinstance(result, np.ndarray) and result.dtype == float
    assert result.tolist() == [2, 4, 6]


def test_read_only_empty_and_not_finite_arrays():
    f, total = dualvm.compile(SCALED), dualvm.compile(SUM)
    xs = np.array([1.0, np.nan, np.inf])
    xs.flags.writeable = False
    np.testing.assert_array_equal(f(xs, 1), xs)
    assert f([], 1).shape == (0,) and f(np.empty(0), 1).shape == (0,)
    assert np.isnan(total(xs))
    assert total.grad(xs).tolist() == [1, 1, 1]


def test_matrices():
    f = dualvm.compile("def f (m : Matrix Real) : Real = loop s = 0.0 for i < rows m do s + m[i, 0] * m[i, 1]")
    m = np.arange(6.0).reshape(3, 2)
    assert f(m) == f(m.tolist()) == f(np.asfortranarray(m)) == f(m[::-1]) == 0 * 1 + 2 * 3 + 4 * 5
    for given in (m, np.asfortranarray(m), m.tolist()):
        np.testing.assert_array_equal(f.grad(given), m[:, ::-1])
    with pytest.raises(dualvm.ArgumentError, match=r"argument m\[1\]: expected 2 elements, as many as the first slice"):
        f([[1, 2], [3]])
    with pytest.raises(dualvm.ArgumentError, match=r"expected Matrix Real, found a numpy.ndarray of shape \(2,\)"):
        f(np.ones(2))
    same = dualvm.compile("def same (m : Matrix Real) : Matrix Real = m")
    np.testing.assert_array_equal(same(m), m)
    value, tangent = same.jvp(m, 2 * m)
    np.testing.assert_array_equal(tangent, 2 * m)
    value, pullback = same.record(m)
    np.testing.assert_array_equal(pullback(3 * m), 3 * m)


def test_derivatives_of_matrices_have_their_shapes():
    m, other = np.arange(6.0).reshape(3, 2), np.ones((2, 3))
    total = dualvm.compile("def total (m : Matrix Real) : Real = loop s = 0.0 for i < rows m do s + m[i, 0] * m[i, 1]")
    same = dualvm.compile("def same (p : { m : Matrix Real, k : Real }) : Matrix Real = p.m")
    args = {"m": m, "k": 1.0}
    value, pullback = same.record(args)
    for call, said in [
        (lambda wrong: total.jvp(m, wrong), "tangent of m: expected the shape (3, 2), found (2, 3)"),
        (lambda wrong: total.hvp(m, wrong), "tangent of m: expected the shape (3, 2), found (2, 3)"),
        (lambda wrong: same.jvp(args, {"m": wrong, "k": 0}), "tangent of p.m: expected the shape (3, 2), found (2, 3)"),
        (lambda wrong: same.vjp(args, wrong), "cotangent of result: expected the shape (3, 2), found (2, 3)"),
        (lambda wrong: pullback(wrong), "cotangent of result: expected the shape (3, 2), found (2, 3)"),
    ]:
        for wrong in (other, other.tolist()):
            with pytest.raises(dualvm.ArgumentError) as error:
                call(wrong)
            assert str(error.value) == said
    with pytest.raises(dualvm.ArgumentError, match=r"expected the shape \(3, 2\), found \(0, 2\)"):
        same.vjp(args, np.ones((0, 2)))
    assert same.vjp(args, m)[1]["m"].tolist() == pullback(m)["m"].tolist() == m.tolist()
    # What isn't flat is compared by the machine.
    rows = dualvm.compile(
        "def rows (m : Matrix Real) (xs : Array (Array Real)) : (Matrix Real, Array (Array Real)) = (m, xs)"
    )
    rows.jvp(m, [[1.0]], (m, [[1.0]]))
    with pytest.raises(dualvm.ArgumentError, match="tangent of m.*expected 3 .*found 2"):
        rows.jvp(m, [[1.0]], (other, [[1.0]]))
    with pytest.raises(dualvm.ArgumentError, match="cotangent of result.*expected 3 .*found 2"):
        rows.vjp(m, [[1.0]], (other, [[1.0]]))


def test_integers_and_truth_values():
    f = dualvm.compile("def f (ns : Array Int) (bs : Array Bool) = (map (\\n -> n + 1) ns, map not bs)")
    for ns, bs in [([1, 2], [True, False]), (np.array([1, 2], np.int16), np.array([True, False]))]:
        up, negated = f(ns, bs)
        assert up.dtype == np.int64 and up.tolist() == [2, 3]
        assert negated.dtype == bool and negated.tolist() == [False, True]
    g = dualvm.compile("def g (n : Int) (b : Bool) = (n, b)")
    assert g(np.int32(3), np.bool_(True)) == (3, True) and g(-(2**63), False) == (-(2**63), False)
    with pytest.raises(dualvm.ArgumentError, match="more than 64 bits"):
        g(2**63, True)
    with pytest.raises(dualvm.ArgumentError, match=r"argument n: expected Int, found a bool \(True\)"):
        g(True, True)


Point = namedtuple("Point", "x y")


@dataclasses.dataclass(frozen=True)
class Spring:
    gravity: typing.ClassVar[float] = 9.81
    stiffness: float
    rest: float
    count: int = 1
    name: str = "spring"
    length: float = dataclasses.field(init=False, default=2.0)


SPRING = """
def energy (s : { stiffness : Real, rest : Real, count : Int }) (p : (Real, Real)) : Real =
  let (x, y) = p in to_real s.count * s.stiffness * (x - s.rest) ^ 2 + y
"""


def test_gradients_have_the_form_of_the_arguments():
    f = dualvm.compile(SPRING)
    as_dict = {"stiffness": 3.0, "rest": 1.0, "count": 1}
    (by_spring, by_point) = f.grad(as_dict, (2.0, 0.0))
    assert by_spring == {"stiffness": 1.0, "rest": -6.0, "count": None} and by_point == (6.0, 1.0)
    (by_spring, by_point) = f.grad(Spring(3.0, 1.0), Point(2.0, 0.0))
    # What the program knows nothing of is no part of a gradient.
    assert dataclasses.asdict(by_spring) == {
        "stiffness": 1.0, "rest": -6.0, "count": None, "name": None, "length": None
    }
    assert isinstance(by_spring, Spring) and "gravity" not in vars(by_spring) and by_point == Point(6.0, 1.0)
    assert isinstance(by_point, Point)
    assert f.grad(as_dict, [2.0, 0.0])[1] == [6.0, 1.0]
    for given, said in [
        ({"stiffness": 3.0}, "found nothing called"),
        ({**as_dict, "length": 1.0}, 'found a field "length"'),
        (3.0, "as a dict, a dataclass or a named tuple, found a float (3.0)"),
        ({**as_dict, "rest": "x"}, "argument s.rest: expected Real, found a str ('x')"),
    ]:
        with pytest.raises(dualvm.ArgumentError) as error:
            f(given, (2.0, 0.0))
        assert said in str(error.value)


def test_dataclasses_have_their_fields_and_no_others():
    @dataclasses.dataclass(slots=True)
    class Fall:
        g: typing.ClassVar[float] = 9.81
        height: float
        offset: dataclasses.InitVar[float]
        twice: float = dataclasses.field(init=False)

        def __post_init__(self, offset):
            self.twice = 2 * self.height + offset

        @property
        def half(self):
            return self.height / 2

    fall = Fall(3.0, 0.5)
    f = dualvm.compile("def f (b : { height : Real, twice : Real }) : Real = b.height * b.twice")
    assert f(fall) == 3.0 * 6.5
    gradient = f.grad(fall)
    assert isinstance(gradient, Fall) and (gradient.height, gradient.twice) == (6.5, 3.0) and Fall.g == 9.81
    for name in ("g", "half"):
        g = dualvm.compile(f"def f (b : {{ height : Real, {name} : Real }}) : Real = b.height")
        with pytest.raises(dualvm.ArgumentError, match=f'found nothing called "{name}"'):
            g(fall)
    module = dualvm.load("type Body = Fall Real\ndef f (b : Body) : Real = match b with Fall x -> x ^ 2")
    assert module.f(fall) == 9.0
    gradient = module.f.grad(fall)
    assert (gradient.height, gradient.twice) == (6.0, None)


def test_rows_of_tuples_are_matrices():
    f = dualvm.compile("def f (ps : Array (Real, Real)) = map (\\p -> let (a, b) = p in (b, 2 * a)) ps")
    assert f([(1, 2), (3, 4)]).tolist() == f(np.array([[1.0, 2], [3, 4]])).tolist() == [[2, 2], [4, 6]]
    value, gradient = f.vjp([(1, 2), (3, 4)], np.ones((2, 2)))
    assert gradient.tolist() == [[2, 1], [2, 1]]
    with pytest.raises(dualvm.ArgumentError, match="rows of 3 numbers in the place of 2"):
        f(np.ones((2, 3)))


def test_arrays_of_records_and_of_arrays():
    f = dualvm.compile("def f (ps : Array { x : Real, y : Real }) : Real = sum (map (\\p -> p.x * p.y) ps)")
    assert f([{"x": 2.0, "y": 3.0}, Point(4.0, 5.0)]) == 26.0
    assert f.grad([{"x": 2.0, "y": 3.0}, Point(4.0, 5.0)]) == [{"x": 3.0, "y": 2.0}, Point(5.0, 4.0)]
    g = dualvm.compile("def g (xs : Array (Array Real)) : Real = sum (map sum xs)")
    assert g([[1, 2], np.array([3.0])]) == g(np.array([[1, 2], [0, 3]])) == 6.0
    assert [row.tolist() for row in g.grad([[1, 2], []])] == [[1, 1], []]


SHAPES = """
type Shape = Circle Real | Rect { width : Real, height : Real } | Group (List Shape) | Dot
def area (s : Shape) : Real = match s with
  | Circle r -> pi * r ^ 2
  | Rect { width = w, height = h } -> w * h
  | Group shapes -> sum (map area shapes)
  | Dot -> 0
def same (s : Shape) : Shape = s
"""


@dataclasses.dataclass
class Circle:
    radius: float


Rect = namedtuple("Rect", "width height")


def test_values_of_data_types():
    module = dualvm.load(SHAPES)
    shape = {"Group": [{"Circle": 0.0}, {"Rect": {"width": 2.0, "height": 3.0}}, "Dot"]}
    assert module.area(shape) == 6.0 and module.same(shape) == shape
    assert module.area.grad(shape) == {"Group": [{"Circle": 0.0}, {"Rect": {"width": 3.0, "height": 2.0}}, "Dot"]}
    assert module.area(Rect(2, 3)) == 6.0 and module.area.grad(Rect(2.0, 3.0)) == Rect(3.0, 2.0)
    assert module.area.grad(Circle(0.5)).radius == pytest.approx(3.141592653589793)
    value, pullback = module.area.record(Rect(2.0, 3.0))
    assert value == 6.0 and pullback(2.0) == Rect(6.0, 4.0)
    with pytest.raises(dualvm.ArgumentError, match="no constructor `Cirle` in `Shape`.*did you mean `Circle`"):
        module.area({"Cirle": 1.0})
    with pytest.raises(dualvm.ArgumentError, match="expected Real, found a str"):
        module.area({"Group": [{"Circle": "x"}]})


def test_derivatives():
    f = dualvm.compile("def f (x : Array Real) (k : Real) : Real = k * x[0] ^ 2 * x[1]")
    x = np.array([3.0, 5.0])
    value, (by_x, by_k) = f.value_and_grad(x, 1.0)
    assert (value, by_x.tolist(), by_k) == (45.0, [30, 9], 45.0)
    assert f.grad(x, 1.0, wrt="x").tolist() == f.wrt("x").grad(x, k=1.0).tolist() == [30, 9]
    assert f.grad(x, 1.0, wrt=("k", "x"))[0] == 45.0 and f.wrt(["k"]).grad(x, 1.0) == (45.0,)
    assert f.wrt("x").wrt(None).grad(x, 1.0)[1] == 45.0
    assert f.jvp(x, 1.0, ([1, 0], 10.0)) == (45.0, 480.0)
    assert f.wrt("k").jvp(x, 1.0, tangent=10.0) == (45.0, 450.0)
    assert f.vjp(x, 1.0, cotangent=2.0)[1][1] == 90.0
    assert f.hvp(x, 1.0, [1, 0], wrt="x").tolist() == [10, 6]
    assert f.jacobian(x, 1.0).tolist() == [[30, 9, 45]]
    assert f.hessian(x, 1.0, wrt="x").tolist() == [[10, 6], [6, 0]]
    value, pullback = f.record(x, 1.0)
    assert pullback(1.0)[0].tolist() == [30, 9] and pullback(2.0)[0].tolist() == [60, 18]
    with pytest.raises(dualvm.NotFoundError, match="`f` has no parameter `y`; it has x, k"):
        f.grad(x, 1.0, wrt="y")
    for tangent in (1.0, (1.0,), ([1], 1.0), (None, 1.0)):
        with pytest.raises(dualvm.ArgumentError, match="tangent"):
            f.jvp(x, 1.0, tangent)
    with pytest.raises(dualvm.ArgumentError, match="there is no cotangent"):
        f.vjp(x, 1.0)
    with pytest.raises(dualvm.NotScalarError):
        dualvm.compile(SCALED).grad(x, 1.0)


def test_arguments_are_bound_for_good():
    text = """
        type Shape = Circle Real | Rect { w : Real, h : Real }
        def f (k : Real) (shape : Shape) (points : Array (Real, Int)) (xs : Array Real) : Real =
          let s = match shape with Circle r -> r | Rect { w, h } -> w * h in
          k * s * sum xs * sum [| x * to_real n for (x, n) in points |]"""
    f = dualvm.compile(text)
    args = (2.0, {"Rect": {"w": 3.0, "h": 5.0}}, [(1.0, 2), (0.5, 4)], np.arange(40.0))
    value, (by_k, by_shape, by_points, by_xs) = f.value_and_grad(*args)
    bound = f.bind(points=args[2], shape=args[1])
    assert bound.signature == "f : (k : Real, xs : Array Real) -> Real" and bound(args[0], xs=args[3]) == value
    again, (k, xs) = bound.value_and_grad(args[0], args[3])
    assert (again, k, xs.tolist()) == (value, by_k, by_xs.tolist())
    assert bound.bind(xs=args[3]).grad(2.0) == by_k and bound.bind().grad(2.0, args[3])[0] == by_k
    assert bound.batch([(2.0, args[3])] * 3) == [value] * 3
    assert bound.record(2.0, args[3])[1](10.0)[0] == 10 * by_k
    # What derivatives are with respect to stays, if it is left.
    assert f.wrt("xs").bind(k=2.0, shape=args[1]).grad(args[2], args[3]).tolist() == by_xs.tolist()
    by_both = f.wrt(["shape", "k"]).bind(shape=args[1])
    assert by_both.selected_parameters == ("k",) and by_both.grad(2.0, *args[2:]) == (by_k,)
    with pytest.raises(dualvm.ArgumentError, match="derivatives of `f` are with respect to `k`"):
        f.wrt("k").bind(k=2.0)
    with pytest.raises(dualvm.NotFoundError, match="`f` has no parameter `points`; it has k, xs"):
        bound.bind(points=[])
    with pytest.raises(dualvm.ArgumentError, match=r"points\[0\]\.1: expected Int"):
        f.bind(points=[(1.0, "x")])
    with pytest.raises(TypeError, match="can't be pickled"):
        pickle.dumps(bound)


def test_a_parameter_may_be_called_like_a_keyword():
    f = dualvm.compile("def f (wrt : Real) (tangent : Real) : Real = wrt * tangent")
    assert f.grad(wrt=2, tangent=3) == (3.0, 2.0)
    assert f.jvp(2, 3, (1, 0)) == (6.0, 3.0)


def test_modules(tmp_path):
    module = dualvm.load(SHAPES + "\ndef twice (x : Real) : Real = let unused = 1.0 in 2 * x")
    assert module.names == ("area", "same", "twice") == tuple(module) and len(module) == 3
    assert "area" in module and "volume" not in module and 3 not in module and "twice" in dir(module)
    assert module["twice"](2) == module.twice(2) == module.function("twice")(2) == 4.0
    assert "`unused` is never used" in module.warnings
    assert repr(module) == "<dualvm.Module: area, same, twice>"
    with pytest.raises(dualvm.NotFoundError, match="did you mean `twice`"):
        module["twise"]
    with pytest.raises(AttributeError, match="did you mean `twice`"):
        module.twise
    with pytest.raises(dualvm.NotFoundError, match="several functions; say which one: area, same, twice"):
        dualvm.compile(SHAPES + "\ndef twice (x : Real) = 2 * x")
    path = tmp_path / "one.dual"
    path.write_text("import two\ndef f (x : Real) : Real = two.g x")
    (tmp_path / "two.dual").write_text("def g (x : Real) : Real = x ^ 2")
    assert dualvm.compile(path, "f")(3) == 9.0
    with pytest.raises(dualvm.CompileError):
        dualvm.compile(path, "f", imports={})
    text = "import two\ndef f (x : Real) : Real = two.g x"
    assert dualvm.compile(text, "f", imports={"two": "def g (x : Real) : Real = x + 1"})(3) == 4.0
    assert dualvm.compile(text, "f", imports=[tmp_path])(3) == dualvm.compile(text, "f", imports=tmp_path)(3) == 9.0
    with pytest.raises(FileNotFoundError):
        dualvm.load(tmp_path / "none.dual")
    with pytest.raises(TypeError, match="expected a program's text, a pathlib.Path of one, or bytes of a module"):
        dualvm.load(3)


def test_a_str_is_a_text_whatever_it_looks_like(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("one.dual", "one.dvs", "one.dvbc"):
        (tmp_path / name).write_text("def f (x : Real) : Real = x")
        for load in (dualvm.load, dualvm.compile):
            with pytest.raises(dualvm.Error) as error:
                load(name)
            assert error.value.__notes__ == ["A str is the text of a program. For a path, give a pathlib.Path."]
    assert dualvm.compile("def f (x : Real) : Real = x -- not one.dual")(2.0) == 2.0
    assert dualvm.compile(pathlib.Path("one.dual"))(2.0) == 2.0

    class Named:
        def __fspath__(self):
            return "one.dual"

    assert dualvm.compile(Named())(2.0) == 2.0


def test_pickles_are_bytecode():
    module = dualvm.load(SHAPES)
    f = module.area.wrt("s").with_options(limits=dualvm.Limits(fuel=10_000, deadline=1.5))
    g, h = pickle.loads(pickle.dumps((f, module.same)))
    assert g({"Circle": 1.0}) == f({"Circle": 1.0}) and g.selected_parameters == "s"
    assert g.module is h.module
    assert dualvm.load(module.to_bytes()).names == dualvm.load(module.to_assembly()).names == module.names
    assert copy.deepcopy(f) is f and copy.copy(module) is module
    with pytest.raises(TypeError, match="can't be pickled"):
        pickle.dumps(f.with_options(cancel=dualvm.CancelHandle()))
    limited = dualvm.load(SHAPES, limits=dualvm.Limits(fuel=3, source_bytes=1000))
    for again in (pickle.loads(pickle.dumps(limited)).area, pickle.loads(pickle.dumps(limited.area))):
        with pytest.raises(dualvm.LimitError):
            again({"Group": ["Dot"] * 100})
    with_trace = dualvm.load(SHAPES, trace=print)
    with pytest.raises(TypeError, match="can't be pickled"):
        pickle.dumps(with_trace)
    assert pickle.loads(pickle.dumps(with_trace.area.with_options(trace=None)))("Dot") == 0.0
    limits = dualvm.Limits(untrusted=True, fuel=3, deadline=0.5)
    assert pickle.loads(pickle.dumps(limits)) == limits != dualvm.Limits()
    assert repr(limits) == "dualvm.Limits(untrusted=True, fuel=3, deadline=0.5)"
    good = module.to_bytes()
    for n in range(0, len(good), 7):
        broken = good[:n] + bytes([good[n] ^ 0x55]) + good[n + 1 :]
        try:
            dualvm.load(broken)
        except (dualvm.ModuleError, dualvm.CompileError):
            pass


def test_without_numpy_arrays_are_lists():
    program = f"""
import sys
sys.modules["numpy"] = None
import dualvm
f = dualvm.compile({SCALED!r})
assert f([1, 2], 2) == [2.0, 4.0]
assert f.vjp([1, 2], 2, [1, 1]) == ([2.0, 4.0], ([2.0, 2.0], 3.0))
assert f.jacobian([1, 2], 2) == [[2.0, 0.0, 1.0], [0.0, 2.0, 2.0]]
"""
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)


def test_a_broken_numpy_is_no_reason_for_lists(tmp_path):
    (tmp_path / "numpy.py").write_text("import numpy_has_lost_a_part")
    program = f"""
import sys
sys.path.insert(0, {str(tmp_path)!r})
import dualvm
try:
    print(dualvm.compile({SCALED!r})([1, 2], 2))
except ModuleNotFoundError as error:
    print(error.name)
"""
    done = subprocess.run([sys.executable, "-c", program], check=True, timeout=60, capture_output=True, text=True)
    assert done.stdout == "numpy_has_lost_a_part\n"
