"""Modules that call each other: compiled once each, linked when they are loaded."""

import pickle

import pytest

import dualvm

SHAPES = """
type Shape = Circle Real | Square { side : Real }
def area (s : Shape) : Real = match s with | Circle r -> pi * r ^ 2 | Square { side = x } -> x * x
def third (xs : Array Real) : Real = xs[2]
"""
USES = """
import shapes
def square (x : Real) : Real = shapes.area (shapes.Square { side = x })
def area (s : shapes.Shape) : Real = 2 * shapes.area s
def third (x : Real) : Real = shapes.third [| x |]
"""


@pytest.fixture
def shapes():
    return dualvm.load(SHAPES, file="shapes.dual")


def test_programs_import_modules(shapes):
    uses = dualvm.load(USES, imports={"shapes": shapes}, file="uses.dual")
    assert uses.names == ("square", "area", "third")
    assert uses.square.value_and_grad(3.0) == (9.0, 6.0)
    assert uses.area({"Square": {"side": 3.0}}) == 18.0
    with pytest.raises(dualvm.Trap) as caught:
        uses.third(1.0)
    assert [place.function for place in caught.value.places] == ["shapes.third", "third"]
    # Among texts.
    mixed = {"shapes": shapes, "twice": "import shapes\ndef f (x : Real) : Real = 2 * shapes.area (shapes.Circle x)"}
    f = dualvm.compile("import twice\ndef f (x : Real) : Real = twice.f x", imports=mixed)
    assert f(1.0) == pytest.approx(2 * 3.141592653589793)


def test_modules_on_disk_are_found(tmp_path, shapes):
    (tmp_path / "shapes.dvbc").write_bytes(shapes.to_bytes())
    (tmp_path / "uses.dual").write_text(USES)
    assert dualvm.load(tmp_path / "uses.dual").square(3.0) == 9.0
    assert dualvm.load(USES, imports=tmp_path).square(3.0) == 9.0
    (tmp_path / "shapes.dvbc").write_bytes(shapes.to_bytes()[:-3])
    with pytest.raises(dualvm.CompileError, match="can't read the module `shapes`"):
        dualvm.load(USES, imports=tmp_path)


def test_engines_have_modules(shapes):
    engine = dualvm.Engine(modules={"shapes": shapes})
    text = """
    import host "shapes.area" as area : Form -> Real
    type Form = Circle Real | Square { side : Real }
    def f (x : Real) : Real = area (Square { side = x })
    """
    assert dualvm.compile(text, engine=engine).value_and_grad(3.0) == (9.0, 6.0)
    with pytest.raises(dualvm.Error, match=r'nobody gives what the module imports.*"shapes.area"'):
        dualvm.compile(text)
    with pytest.raises(dualvm.Error, match="of another type"):
        dualvm.compile(text.replace("side", "length"), engine=engine)
    for wrong in ({"shapes": SHAPES}, {"shapes": None}):
        with pytest.raises(TypeError, match=r"modules\['shapes'\]|modules\[\"shapes\"\]"):
            dualvm.Engine(modules=wrong)


def test_bytes_have_in_them_what_is_called(shapes):
    uses = dualvm.load(USES, imports={"shapes": shapes})
    for again in (dualvm.load(uses.to_bytes()), dualvm.load(uses.to_assembly()), pickle.loads(pickle.dumps(uses))):
        assert again.names == uses.names
        assert again.square(3.0) == 9.0
