//! The evals of GradBench at built-in sizes, beside primal and derivative in hand-written Rust.
//!
//! Programs run as they do for the suite's own driver: inputs are read from its JSON, arguments and results cross the
//! border in every run, and Jacobians are assembled. What is by hand is in `benches/gradbench/`, beside the programs.

#[path = "../../benches/gradbench/hand.rs"]
mod hand;
mod report;

use super::Selection;
use super::cases::Tier;
use super::measure::{self, Effort};
use crate::gradbench::{Evals, NoAnswer, Prepared, reals};
use dualvm::Error;
use hand::{HandWritten, ba, det, gmm, ht, kmeans, llsq, lse, lstm, ode};
pub(crate) use report::Report;
use report::{Row, TierResult, Times};
use std::cell::RefCell;
use std::fmt;
use std::hint::black_box;
use std::time::{Duration, Instant};

/// What `--suite` takes.
pub(crate) const NAME: &str = "gradbench";

/// An eval.
struct Case {
    eval: &'static str,
    /// The suite's names of what is measured.
    primal: &'static str,
    derivative: Derivative,
    /// Sizes S and M.
    sizes: [fn() -> Box<dyn HandWritten>; 2],
}

enum Derivative {
    /// By the suite's name.
    Named(&'static str),
    /// Of the primal with respect to a parameter: the suite asks for second derivatives as well.
    GradientBy(&'static str),
}

use Derivative::{GradientBy, Named};

const SIZES: [&str; 2] = ["S", "M"];

/// All evals but `hello`, which measures nothing, and `particle` and `saddle`, which aren't there by hand.
const CASES: [Case; 9] = [
    Case {
        eval: "lse",
        primal: "primal",
        derivative: Named("gradient"),
        sizes: [|| Box::new(lse::Lse::new(2_500)), || Box::new(lse::Lse::new(80_000))],
    },
    Case {
        eval: "llsq",
        primal: "primal",
        derivative: Named("gradient"),
        sizes: [|| Box::new(llsq::Llsq::new(128, 16)), || Box::new(llsq::Llsq::new(128, 1024))],
    },
    Case {
        eval: "det",
        primal: "primal",
        derivative: Named("gradient"),
        sizes: [|| Box::new(det::Det::new(5)), || Box::new(det::Det::new(8))],
    },
    Case {
        eval: "ode",
        primal: "primal",
        derivative: Named("gradient"),
        sizes: [|| Box::new(ode::Ode::new(1_000, 1)), || Box::new(ode::Ode::new(10_000, 10))],
    },
    Case {
        eval: "gmm",
        primal: "objective",
        derivative: Named("jacobian"),
        sizes: [|| Box::new(gmm::Gmm::new(2, 5, 1_000)), || Box::new(gmm::Gmm::new(10, 25, 1_000))],
    },
    Case {
        eval: "lstm",
        primal: "objective",
        derivative: Named("jacobian"),
        sizes: [|| Box::new(lstm::Lstm::new(2, 1_024)), || Box::new(lstm::Lstm::new(4, 1_024))],
    },
    Case {
        eval: "kmeans",
        primal: "cost",
        derivative: GradientBy("centroids"),
        sizes: [|| Box::new(kmeans::KMeans::new(10, 1_000, 8)), || Box::new(kmeans::KMeans::new(100, 1_000, 16))],
    },
    Case {
        eval: "ba",
        primal: "objective",
        derivative: Named("jacobian"),
        sizes: [|| Box::new(ba::Ba::new(49, 7_776, 31_843)), || Box::new(ba::Ba::new(257, 65_132, 225_911))],
    },
    Case {
        eval: "ht",
        primal: "objective",
        derivative: Named("jacobian"),
        sizes: [|| Box::new(ht::Ht::new(100)), || Box::new(ht::Ht::new(1_600))],
    },
];

/// How much is measured.
pub(crate) struct Plan {
    only: Selection,
    tiers: Vec<Tier>,
    /// As many of `SIZES`.
    sizes: usize,
    /// Its rounds are the most that a row has.
    effort: Effort,
    /// About as long as the rounds of a row may take; large programs have fewer.
    row: Duration,
}

impl Plan {
    /// A quick one is of the small sizes only.
    pub(crate) fn new(only: Selection, tiers: Vec<Tier>, quick: bool) -> Plan {
        match quick {
            true => Plan { only, tiers, sizes: 1, effort: Effort::QUICK, row: Duration::from_millis(300) },
            false => Plan { only, tiers, sizes: 2, effort: Effort::FULL, row: Duration::from_secs(10) },
        }
    }

    pub(crate) fn rows(&self) -> usize {
        self.only.count(names()) * self.sizes
    }
}

/// The names of the evals.
pub(crate) fn names() -> impl Iterator<Item = &'static str> {
    CASES.iter().map(|case| case.eval)
}

/// Fewer samples have no median that is worth the name.
const ROUNDS_MIN: usize = 3;

/// Why an eval can't be measured.
#[derive(Debug)]
pub(crate) enum Unsound {
    Call(NoAnswer),
    /// dualvm and the hand-written program disagree.
    Differs {
        what: &'static str,
        index: usize,
        expected: f64,
        found: f64,
    },
    /// Results have different sizes.
    Count {
        what: &'static str,
        expected: usize,
        found: usize,
    },
}

impl fmt::Display for Unsound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Unsound::Call(why) => why.fmt(f),
            Unsound::Differs { what, index, expected, found } => {
                write!(f, "{what} {index}: by hand {expected}, found {found}")
            }
            Unsound::Count { what, expected, found } => write!(f, "{what}: by hand {expected} reals, found {found}"),
        }
    }
}

impl From<NoAnswer> for Unsound {
    fn from(why: NoAnswer) -> Self {
        Unsound::Call(why)
    }
}

impl From<Error> for Unsound {
    fn from(error: Error) -> Self {
        Unsound::Call(error.into())
    }
}

/// Checks and measures evals. `row` hears of each row, with the eval's name. An error comes with the eval's name.
pub(crate) fn run(plan: &Plan, mut row: impl FnMut(&'static str)) -> Result<Report, (&'static str, Unsound)> {
    let mut rows = Vec::new();
    for case in CASES.iter().filter(|case| plan.only.has(case.eval)) {
        for (size, make) in SIZES.iter().zip(&case.sizes).take(plan.sizes) {
            let measured = measure(plan, case, size, &*make()).map_err(|error| (case.eval, error))?;
            rows.push(measured);
            row(case.eval);
        }
    }
    Ok(Report { tiers: plan.tiers.clone(), rows })
}

/// An eval on a tier.
struct OnTier {
    primal: RefCell<Box<dyn Prepared>>,
    derivative: RefCell<Box<dyn Prepared>>,
}

impl OnTier {
    fn new(tier: Tier, case: &Case, input: &str) -> Result<OnTier, NoAnswer> {
        let mut evals = Evals::new(tier.engine());
        let (primal, _) = evals.prepare(case.eval, case.primal, input)?;
        let derivative = match case.derivative {
            Named(name) => evals.prepare(case.eval, name, input)?.0,
            GradientBy(parameter) => evals.prepare_gradient(case.eval, case.primal, parameter, input)?,
        };
        Ok(OnTier { primal: primal.into(), derivative: derivative.into() })
    }
}

/// What is timed.
enum Measured<'a> {
    HandPrimal(&'a dyn HandWritten),
    HandDerivative(&'a dyn HandWritten),
    Dualvm(&'a RefCell<Box<dyn Prepared>>),
}

impl Measured<'_> {
    fn time(&self, times: u64) -> Result<Duration, Error> {
        let began = Instant::now();
        for _ in 0..times {
            match self {
                Measured::HandPrimal(by_hand) => drop(black_box(black_box(by_hand).primal())),
                Measured::HandDerivative(by_hand) => drop(black_box(black_box(by_hand).derivative())),
                Measured::Dualvm(prepared) => prepared.borrow_mut().run()?,
            }
        }
        Ok(began.elapsed())
    }
}

fn measure(plan: &Plan, case: &Case, size: &'static str, by_hand: &dyn HandWritten) -> Result<Row, Unsound> {
    let input = by_hand.input().to_string();
    let on_tier = |&tier: &Tier| OnTier::new(tier, case, &input);
    let tiers = plan.tiers.iter().map(on_tier).collect::<Result<Vec<_>, _>>()?;
    for OnTier { primal, derivative } in &tiers {
        check("value", by_hand, by_hand.primal().into_reals(), &mut **primal.borrow_mut())?;
        check("derivative", by_hand, by_hand.derivative().into_reals(), &mut **derivative.borrow_mut())?;
    }
    let of_tiers = tiers.iter().flat_map(|tier| [Measured::Dualvm(&tier.primal), Measured::Dualvm(&tier.derivative)]);
    let hand = [Measured::HandPrimal(by_hand), Measured::HandDerivative(by_hand)];
    let measured: Vec<Measured<'_>> = hand.into_iter().chain(of_tiers).collect();
    let effort = effort(plan, &measured)?;
    let medians = measure::medians(&measured, &effort, Measured::time, || {})?;
    let times = |pair: &[f64]| Times { primal: pair[0], derivative: pair[1] };
    let of_tier = |((&tier, on_tier), medians): ((&Tier, &OnTier), &[f64])| TierResult {
        tier,
        times: times(medians),
        tape: on_tier.derivative.borrow().tape(),
    };
    Ok(Row {
        eval: case.eval,
        size,
        ops: by_hand.ops(),
        rounds: effort.rounds,
        hand: times(&medians[..2]),
        tiers: plan.tiers.iter().zip(&tiers).zip(medians[2..].chunks(2)).map(of_tier).collect(),
    })
}

/// As many rounds as fit into a row's time.
fn effort(plan: &Plan, measured: &[Measured<'_>]) -> Result<Effort, Error> {
    let Effort { warm_up, sample, rounds } = plan.effort;
    let mut round = Duration::ZERO;
    for measured in measured {
        round += measured.time(1)?.max(sample);
    }
    let fit = (plan.row.as_secs_f64() / round.as_secs_f64()) as usize;
    Ok(Effort { warm_up, sample, rounds: fit.clamp(ROUNDS_MIN, rounds) })
}

/// Compares a run with what is by hand.
fn check(
    what: &'static str,
    by_hand: &dyn HandWritten,
    expected: Vec<f64>,
    prepared: &mut dyn Prepared,
) -> Result<(), Unsound> {
    prepared.run()?;
    let (expected, found) = (by_hand.shown(expected), reals([&prepared.output()]));
    if expected.len() != found.len() {
        return Err(Unsound::Count { what, expected: expected.len(), found: found.len() });
    }
    let is_near = |(x, y): (&f64, &f64)| (x - y).abs() <= (1e-9 * x.abs().max(y.abs())).max(1e-12);
    match expected.iter().zip(&found).position(|pair| !is_near(pair)) {
        Some(index) => Err(Unsound::Differs { what, index, expected: expected[index], found: found[index] }),
        None => Ok(()),
    }
}
