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
    program("attitude", own!("attitude"), [|| data::attitude(5), || data::attitude(800), || data::attitude(30_000)]),
    program(
        "black_scholes_pde",
        own!("black_scholes_pde"),
        [|| data::black_scholes_pde(20), || data::black_scholes_pde(80), || data::black_scholes_pde(250)],
    ),
    program("bundle", own!("bundle"), [|| data::bundle(2, 6), || data::bundle(10, 300), || data::bundle(60, 3_000)]),
    program("cnn", own!("cnn"), [|| data::cnn(1, 2, 8, 1), || data::cnn(3, 4, 12, 4), || data::cnn(6, 8, 20, 12)]),
    program(
        "expression_tree",
        own!("expression_tree"),
        [|| data::expression_tree(3, 3), || data::expression_tree(6, 40), || data::expression_tree(8, 400)],
    ),
    program(
        "gaussian_process",
        own!("gaussian_process"),
        [|| data::gaussian_process(5), || data::gaussian_process(30), || data::gaussian_process(90)],
    ),
    program(
        "graph_layout",
        own!("graph_layout"),
        [|| data::graph_layout(6), || data::graph_layout(60), || data::graph_layout(300)],
    ),
    program(
        "hierarchical",
        own!("hierarchical"),
        [|| data::hierarchical(3, 4), || data::hierarchical(30, 30), || data::hierarchical(300, 100)],
    ),
    program("hmm", own!("hmm"), [|| data::hmm(2, 1, 10), || data::hmm(5, 3, 60), || data::hmm(12, 10, 150)]),
    program("kalman", own!("kalman"), [|| data::kalman(15), || data::kalman(2_000), || data::kalman(60_000)]),
    program(
        "logistic_mixture",
        own!("logistic_mixture"),
        [
            || data::logistic_mixture(2, 3, 5),
            || data::logistic_mixture(4, 6, 200),
            || data::logistic_mixture(6, 10, 4_000),
        ],
    ),
    program("lstm", own!("lstm"), [|| data::lstm(2, 2, 4), || data::lstm(8, 4, 40), || data::lstm(24, 12, 150)]),
    program("n_body", own!("n_body"), [|| data::n_body(2, 10), || data::n_body(5, 60), || data::n_body(10, 500)]),
    program(
        "neural_ode",
        own!("neural_ode"),
        [|| data::neural_ode(2, 3, 1, 0.3), || data::neural_ode(2, 6, 8, 1.0), || data::neural_ode(4, 16, 30, 1.5)],
    ),
    program(
        "phylogeny",
        own!("phylogeny"),
        [|| data::phylogeny(4, 5), || data::phylogeny(12, 100), || data::phylogeny(40, 800)],
    ),
    program(
        "ray_marcher",
        own!("ray_marcher"),
        [|| data::ray_marcher(2, 2), || data::ray_marcher(10, 3), || data::ray_marcher(50, 4)],
    ),
    program(
        "soft_dtw",
        own!("soft_dtw"),
        [|| data::soft_dtw(6, 1), || data::soft_dtw(20, 5), || data::soft_dtw(60, 15)],
    ),
    program(
        "spline",
        own!("spline"),
        [|| data::spline(6, 8), || data::spline(200, 1_000), || data::spline(5_000, 30_000)],
    ),
    // Examples.
    program(
        "branchy",
        example!("branchy"),
        [|| data::branchy(20), || data::branchy(50_000), || data::branchy(1_500_000)],
    ),
    program(
        "dotprod",
        example!("dotprod"),
        [|| data::dotprod(10), || data::dotprod(50_000), || data::dotprod(1_000_000)],
    ),
    program(
        "dotprod_list",
        example!("dotprod"),
        [|| data::dotprod(10), || data::dotprod(20_000), || data::dotprod(400_000)],
    ),
    program(
        "expression",
        example!("expression"),
        [|| data::expression(3), || data::expression(11), || data::expression(16)],
    ),
    program(
        "logistic",
        example!("logistic"),
        [|| data::logistic(3, 5), || data::logistic(10, 500), || data::logistic(50, 6_000)],
    ),
    program(
        "monte_carlo",
        example!("monte_carlo"),
        [|| data::monte_carlo(10), || data::monte_carlo(1_000), || data::monte_carlo(40_000)],
    ),
    program(
        "neural",
        example!("neural"),
        [|| data::neural(4, 6), || data::neural(100, 100), || data::neural(700, 500)],
    ),
    program(
        "newton_sweep",
        example!("newton_sweep"),
        [|| data::newton_sweep(3), || data::newton_sweep(2_000), || data::newton_sweep(60_000)],
    ),
    program(
        "particles",
        example!("particles"),
        [|| data::particles(10, 2), || data::particles(1_000, 5), || data::particles(20_000, 10)],
    ),
    program(
        "rosenbrock",
        example!("rosenbrock"),
        [|| data::rosenbrock(5), || data::rosenbrock(20_000), || data::rosenbrock(600_000)],
    ),
    program(
        "summatvec",
        example!("summatvec"),
        [|| data::summatvec(4), || data::summatvec(150), || data::summatvec(1_000)],
    ),
    program(
        "tree_sum",
        example!("tree_sum"),
        [|| data::tree_sum(10), || data::tree_sum(20_000), || data::tree_sum(400_000)],
    ),
    program(
        "uneven_map",
        example!("uneven_map"),
        [|| data::uneven_map(4, 20), || data::uneven_map(20, 200), || data::uneven_map(80, 500)],
    ),
];
