//! The programs that the tiers are measured by, each with arguments of three sizes: programs as users write them, and
//! the examples that have a size. All of them return one real.

use super::data;

/// A program that is measured.
pub(super) struct Program {
    pub(super) name: &'static str,
    pub(super) source: &'static str,
    /// The function that is called.
    pub(super) function: &'static str,
    /// From small to large.
    pub(super) sizes: [Size; 3],
}

/// Arguments of one size.
pub(super) struct Size {
    /// How they are meant: "one shot" is done before anything is worth compiling, "some" is interpreted within some
    /// milliseconds, "hot" within some tenths of a second, value and gradient.
    pub(super) label: &'static str,
    /// A JSON list of the arguments.
    pub(super) args: fn() -> String,
}

/// A program whose function is called like itself.
const fn program(name: &'static str, source: &'static str, [one_shot, some, hot]: [fn() -> String; 3]) -> Program {
    let one_shot = Size { label: "one shot", args: one_shot };
    let sizes = [one_shot, Size { label: "some", args: some }, Size { label: "hot", args: hot }];
    Program { name, source, function: name, sizes }
}

/// The source of a program of this benchmark.
macro_rules! own {
    ($name:literal) => {
        include_str!(concat!("../../../benches/tiering/", $name, ".dual"))
    };
}

/// The source of an example.
macro_rules! example {
    ($name:literal) => {
        include_str!(concat!("../../../examples/", $name, ".dual"))
    };
}

/// All programs, in the order of the report.
pub(super) const PROGRAMS: &[Program] = &[
    // Programs of this benchmark.
    program("attitude", own!("attitude"), [|| data::attitude(5), || data::attitude(5_000), || data::attitude(60_000)]),
    program(
        "black_scholes_pde",
        own!("black_scholes_pde"),
        [|| data::black_scholes_pde(20), || data::black_scholes_pde(130), || data::black_scholes_pde(320)],
    ),
    program("bundle", own!("bundle"), [|| data::bundle(2, 6), || data::bundle(12, 1_000), || data::bundle(60, 3_000)]),
    program("cnn", own!("cnn"), [|| data::cnn(1, 2, 8, 1), || data::cnn(4, 6, 14, 10), || data::cnn(6, 8, 28, 20)]),
    program(
        "expression_tree",
        own!("expression_tree"),
        [|| data::expression_tree(3, 3), || data::expression_tree(6, 600), || data::expression_tree(8, 5_000)],
    ),
    program(
        "gaussian_process",
        own!("gaussian_process"),
        [|| data::gaussian_process(5), || data::gaussian_process(65), || data::gaussian_process(230)],
    ),
    program(
        "graph_layout",
        own!("graph_layout"),
        [|| data::graph_layout(6), || data::graph_layout(150), || data::graph_layout(900)],
    ),
    program(
        "hierarchical",
        own!("hierarchical"),
        [|| data::hierarchical(3, 4), || data::hierarchical(100, 300), || data::hierarchical(800, 800)],
    ),
    program("hmm", own!("hmm"), [|| data::hmm(2, 1, 10), || data::hmm(8, 4, 100), || data::hmm(12, 40, 200)]),
    program("kalman", own!("kalman"), [|| data::kalman(15), || data::kalman(15_000), || data::kalman(400_000)]),
    program(
        "logistic_mixture",
        own!("logistic_mixture"),
        [
            || data::logistic_mixture(2, 3, 5),
            || data::logistic_mixture(4, 6, 1_000),
            || data::logistic_mixture(6, 10, 20_000),
        ],
    ),
    program("lstm", own!("lstm"), [|| data::lstm(2, 2, 4), || data::lstm(12, 6, 100), || data::lstm(32, 16, 800)]),
    program("n_body", own!("n_body"), [|| data::n_body(2, 10), || data::n_body(5, 350), || data::n_body(10, 3_000)]),
    program(
        "neural_ode",
        own!("neural_ode"),
        [|| data::neural_ode(2, 3, 1, 0.3), || data::neural_ode(2, 6, 80, 1.0), || data::neural_ode(4, 16, 360, 1.5)],
    ),
    program(
        "phylogeny",
        own!("phylogeny"),
        [|| data::phylogeny(4, 5), || data::phylogeny(12, 200), || data::phylogeny(40, 1_400)],
    ),
    program(
        "ray_marcher",
        own!("ray_marcher"),
        [|| data::ray_marcher(2, 2), || data::ray_marcher(15, 3), || data::ray_marcher(70, 4)],
    ),
    program(
        "soft_dtw",
        own!("soft_dtw"),
        [|| data::soft_dtw(6, 1), || data::soft_dtw(25, 5), || data::soft_dtw(60, 25)],
    ),
    program(
        "spline",
        own!("spline"),
        [|| data::spline(6, 8), || data::spline(1_000, 6_000), || data::spline(40_000, 250_000)],
    ),
    // Examples.
    program(
        "branchy",
        example!("branchy"),
        [|| data::branchy(20), || data::branchy(70_000), || data::branchy(1_500_000)],
    ),
    program(
        "dotprod",
        example!("dotprod"),
        [|| data::dotprod(10), || data::dotprod(200_000), || data::dotprod(1_000_000)],
    ),
    program(
        "dotprod_list",
        example!("dotprod"),
        [|| data::dotprod(10), || data::dotprod(40_000), || data::dotprod(800_000)],
    ),
    program(
        "expression",
        example!("expression"),
        [|| data::expression(3), || data::expression(15), || data::expression(18)],
    ),
    program(
        "logistic",
        example!("logistic"),
        [|| data::logistic(3, 5), || data::logistic(20, 4_000), || data::logistic(50, 40_000)],
    ),
    program(
        "monte_carlo",
        example!("monte_carlo"),
        [|| data::monte_carlo(10), || data::monte_carlo(8_000), || data::monte_carlo(200_000)],
    ),
    program(
        "neural",
        example!("neural"),
        [|| data::neural(4, 6), || data::neural(300, 300), || data::neural(1_000, 900)],
    ),
    program(
        "newton_sweep",
        example!("newton_sweep"),
        [|| data::newton_sweep(3), || data::newton_sweep(16_000), || data::newton_sweep(600_000)],
    ),
    program(
        "particles",
        example!("particles"),
        [|| data::particles(10, 2), || data::particles(1_000, 70), || data::particles(1_000, 2_000)],
    ),
    program(
        "rosenbrock",
        example!("rosenbrock"),
        [|| data::rosenbrock(5), || data::rosenbrock(120_000), || data::rosenbrock(2_000_000)],
    ),
    program(
        "summatvec",
        example!("summatvec"),
        [|| data::summatvec(4), || data::summatvec(450), || data::summatvec(1_500)],
    ),
    program(
        "tree_sum",
        example!("tree_sum"),
        [|| data::tree_sum(10), || data::tree_sum(8_000), || data::tree_sum(250_000)],
    ),
    program(
        "uneven_map",
        example!("uneven_map"),
        [|| data::uneven_map(4, 20), || data::uneven_map(40, 200), || data::uneven_map(150, 500)],
    ),
];
