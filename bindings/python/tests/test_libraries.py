"""dualvm inside of other libraries: optimisers, training loops, samplers. What isn't installed is left out."""

import random

import pytest

import dualvm

np = pytest.importorskip("numpy")

ROSENBROCK = """
def rosenbrock (x : Array Real) : Real =
  loop acc = 0.0 for i < length x - 1 do
    acc + 100 * (x[i + 1] - x[i] ^ 2) ^ 2 + (1 - x[i]) ^ 2
"""
NORMAL = "def density (x : Array Real) : Real = loop s = 0.0 for i < length x do s - (x[i] - to_real i) ^ 2 / 2"


def test_scipy_minimises_with_gradients_and_products():
    optimize = pytest.importorskip("scipy.optimize")
    f = dualvm.compile(ROSENBROCK)
    start = np.array([1.3, 0.7, 0.8, 1.9, 1.2])
    best = optimize.minimize(f.value_and_grad, start, jac=True)
    assert best.success and np.allclose(best.x, 1, atol=1e-4)
    best = optimize.minimize(f.value_and_grad, start, jac=True, hessp=f.hvp, method="Newton-CG")
    assert best.success and np.allclose(best.x, 1, atol=1e-3)
    best = optimize.minimize(f, start, jac=f.grad, hess=f.hessian, method="trust-exact")
    assert best.success and np.allclose(best.x, 1, atol=1e-6)
    assert optimize.check_grad(f, f.grad, start) < 1e-4


def test_scipy_gives_data_behind_the_direction_of_a_product():
    optimize = pytest.importorskip("scipy.optimize")
    # All arrays have the same length, so that taking one for another is no error, but a wrong minimum.
    f = dualvm.compile(
        "def f (p : Array Real) (ts : Array Real) (ys : Array Real) : Real =\n"
        "  loop s = 0.0 for i < length p do s + ts[i] * (p[i] - ys[i]) ^ 4 + (p[i] - ys[i]) ^ 2",
        wrt="p",
    )
    ts, ys = np.array([1.0, 2.0, 3.0]), np.array([0.5, -1.0, 2.0])
    product = lambda p, direction, *data: f.hvp(p, *data, tangent=direction)
    options = {"args": (ts, ys), "jac": True, "hessp": product}
    for method in ("Newton-CG", "trust-ncg", "trust-krylov"):
        best = optimize.minimize(f.value_and_grad, np.zeros(3), method=method, **options)
        assert best.success and np.allclose(best.x, ys, atol=1e-5)


def test_scipy_fits_with_a_jacobian():
    optimize = pytest.importorskip("scipy.optimize")
    f = dualvm.compile(
        "def misfits (p : Array Real) (ts : Array Real) (ys : Array Real) =\n"
        "  [| p[0] * exp (p[1] * ts[i]) - ys[i] for i < length ts |]",
        wrt="p",
    )
    ts = np.linspace(0, 1, 20)
    ys = 2 * np.exp(-1.5 * ts)
    found = optimize.least_squares(f, [1.0, 0.0], f.jacobian, args=(ts, ys))
    assert np.allclose(found.x, [2, -1.5])


def test_torch_pulls_back_through_a_recorded_run():
    torch = pytest.importorskip("torch", reason="PyTorch isn't installed")
    f = dualvm.compile("def f (x : Array Real) (k : Real) = [| k * sin v for v in x |]")

    class Program(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, k):
            value, ctx.pullback = f.record(x.detach().numpy(), k.item())
            return torch.from_numpy(value)

        @staticmethod
        def backward(ctx, cotangent):
            by_x, by_k = ctx.pullback(cotangent.numpy())
            return torch.from_numpy(by_x), torch.tensor(by_k, dtype=torch.float64)

    x = torch.linspace(0, 1, 5, dtype=torch.float64, requires_grad=True)
    k = torch.tensor(2.0, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(Program.apply, (x, k))


def test_jax_calls_back_with_a_vjp_of_its_own():
    jax = pytest.importorskip("jax", reason="JAX isn't installed")
    jax.config.update("jax_enable_x64", True)
    f = dualvm.compile(ROSENBROCK)

    @jax.custom_vjp
    def program(x):
        return jax.pure_callback(f, jax.ShapeDtypeStruct((), "float64"), x)

    def forward(x):
        shapes = (jax.ShapeDtypeStruct((), "float64"), jax.ShapeDtypeStruct(x.shape, "float64"))
        return jax.pure_callback(f.value_and_grad, shapes, x)

    program.defvjp(forward, lambda gradient, cotangent: (cotangent * gradient,))
    x = jax.numpy.array([-1.2, 1.0, 0.7])
    value, gradient = jax.jit(jax.value_and_grad(lambda x: program(2 * x)))(x)
    expected_value, expected = f.value_and_grad(2 * np.asarray(x))
    assert value == pytest.approx(expected_value) and np.allclose(gradient, 2 * expected)


def test_a_sampler_finds_the_mean_of_a_density():
    """Hamiltonian Monte Carlo, with leapfrog steps by gradients."""
    density = dualvm.compile(NORMAL)
    source = random.Random(1)
    x, samples = np.zeros(3), []
    value, gradient = density.value_and_grad(x)
    for _ in range(1500):
        momentum = np.array([source.gauss(0, 1) for _ in range(3)])
        energy, (y, new_value, new_gradient) = momentum @ momentum / 2 - value, (x, value, gradient)
        for _ in range(6):
            momentum = momentum + 0.2 * new_gradient
            y = y + 0.4 * momentum
            new_value, new_gradient = density.value_and_grad(y)
            momentum = momentum + 0.2 * new_gradient
        if source.random() < np.exp(min(0, energy - (momentum @ momentum / 2 - new_value))):
            x, value, gradient = y, new_value, new_gradient
        samples.append(x)
    assert np.allclose(np.mean(samples, axis=0), [0, 1, 2], atol=0.2)
