// An ODE fit in C++: how fast prey and hunters grow and die is found from noisy counts of both, by Gauss-Newton steps
// with the Jacobian of what a Runge-Kutta integration gives. Errors are exceptions, handles free themselves.

#include "dualvm.hpp"
#include <cmath>
#include <cstdio>

static const char SOURCE[] = R"(
def slope ((prey, hunters) : (Real, Real)) (a : Real) (b : Real) : (Real, Real) =
  (a * prey - prey * hunters, prey * hunters - b * hunters)

def step ((x, y) : (Real, Real)) (a : Real) (b : Real) (h : Real) : (Real, Real) =
  let (k1x, k1y) = slope (x, y) a b in
  let (k2x, k2y) = slope (x + h / 2 * k1x, y + h / 2 * k1y) a b in
  let (k3x, k3y) = slope (x + h / 2 * k2x, y + h / 2 * k2y) a b in
  let (k4x, k4y) = slope (x + h * k3x, y + h * k3y) a b in
  (x + h / 6 * (k1x + 2 * k2x + 2 * k3x + k4x), y + h / 6 * (k1y + 2 * k2y + 2 * k3y + k4y))

def misfits (a : Real) (b : Real) (counts : Array (Real, Real)) : Array (Real, Real) =
  [| let (x, y) = loop at = (1.0, 0.5) for _s < 20 * (i + 1) do step at a b 0.025 in
     let (prey, hunters) = counts[i] in
     (x - prey, y - hunters) for i < length counts |]
)";

int main() {
    try {
        dualvm::Engine engine;
        auto misfits = engine.compile("ode.dual", SOURCE).function("misfits").wrt({"a", "b"});
        auto frame = misfits.frame();
        std::printf("%s\n", misfits.signature().data());

        // Counted at times 0.5, 1, ...; off by some hundredths of what a = 1.5 and b = 0.8 give.
        const double counts[] = {1.62, 0.63, 2.22, 1.14, 2.07, 2.32, 0.98, 3.37, 0.41, 3.10, 0.20, 2.42};
        double a = 1, b = 1, jacobian[12][2];
        for (int round = 0; round < 8; round++) {
            std::vector<dualvm_value> args = {dualvm_real(a), dualvm_real(b), dualvm_reals(counts, 12)};
            dualvm_value residuals;
            dualvm::call(dualvm_jacobian, frame.get(), args.data(), args.size(), &residuals, std::size_t(1),
                         &jacobian[0][0], std::size_t(24), nullptr, nullptr);
            double aa = 0, ab = 0, bb = 0, ra = 0, rb = 0, squares = 0;
            for (int i = 0; i < 12; i++) {
                double r = residuals.of.reals[i], da = jacobian[i][0], db = jacobian[i][1];
                aa += da * da, ab += da * db, bb += db * db, ra += r * da, rb += r * db, squares += r * r;
            }
            if (round % 7 == 0) {
                std::printf("round %d: misfit %.4f\n", round, std::sqrt(squares));
            }
            double determinant = aa * bb - ab * ab;
            a -= (bb * ra - ab * rb) / determinant;
            b -= (aa * rb - ab * ra) / determinant;
        }
        std::printf("a = %.2f, b = %.2f\n", a, b);

        engine.compile("wrong.dual", "def f (x : Real) : Real = x +");
    } catch (const dualvm::Error &error) {
        std::printf("%s\n%s\n", dualvm_status_name(error.status()), error.what());
    }
    std::printf("handles left: %zu\n", dualvm_handle_count());
}
