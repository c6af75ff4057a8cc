//! Random programs: the engines against each other and against the reference, value by value and derivative by
//! derivative, and at limits.
//!
//! `DUALVM_SEEDS=n` runs n seeds of each style instead of some hundreds, `DUALVM_FIRST_SEED=s` begins at another one. A
//! failure prints the seed and the program. With so many seeds every engine runs every program; with
//! `DUALVM_ENGINES=turns` those that compile take turns, which is several times as fast.

mod support;

use dualvm_vm::binary;
use support::check::{Counts, check_seeds};
use support::dice::Dice;
use support::engines::Engines;
use support::generate::{Style, program};
use support::{bytes, from_environment};

fn check_style(style: Style, seeds: u64) -> Counts {
    let counts = check_seeds(&format!("{style:?}"), seeds, |seed| program(seed, style));
    assert!(counts.too_long * 20 < counts.programs + 40, "too many programs are too long to be of use: {counts:?}");
    for limit in ["Fuel", "TapeBytes", "AllocatedBytes"] {
        let stopped = counts.limits.get(limit).copied().unwrap_or(0);
        assert!(stopped * 10 > counts.programs, "too few runs reached the limit {limit}: {counts:?}");
    }
    counts
}

/// Asserts that one in `n` programs at least executed each of these constructs.
#[track_caller]
fn assert_common(counts: &Counts, n: u64, constructs: &[&str]) {
    for what in constructs {
        let found = counts.constructs.get(what).copied().unwrap_or(0);
        assert!(found * n >= counts.programs, "too few programs have a {what}, {found}: {counts:?}");
    }
}

#[test]
fn tame_programs_agree_with_the_reference() {
    let counts = check_style(Style::Tame, 300);
    assert!(counts.nonzero * 3 > counts.programs, "too few gradients are not zero: {counts:?}");
    assert!(counts.finite_differences * 5 > counts.programs, "too few differences could be taken: {counts:?}");
    assert_common(
        &counts,
        10,
        &["branch", "switch", "nested loop", "loop of one block", "call of a closure", "closure"],
    );
    assert_common(&counts, 40, &["more than 100 real registers", "switch with many targets", "to_int", "division"]);
}

#[test]
fn long_programs_agree_with_the_reference() {
    let counts = check_style(Style::Long, 60);
    assert_common(&counts, 4, &["more than 100 real registers"]);
}

#[test]
fn wasteful_programs_agree_with_the_reference() {
    let counts = check_style(Style::Wasteful, 100);
    assert!(counts.evacuated * 20 > counts.programs, "too few heaps were evacuated: {counts:?}");
}

#[test]
fn wild_programs_agree_with_the_reference() {
    let counts = check_style(Style::Wild, 200);
    assert!(counts.trapped * 10 > counts.programs, "too few programs trap: {counts:?}");
    assert!(counts.singular_different * 20 <= counts.singular + 20, "{counts:?}");
    assert_common(&counts, 10, &["scalar that may trap"]);
    assert_common(&counts, 200, &["chain used after its end", "builder used after its end"]);
    assert_common(&counts, 100, &["update that may trap", "range that may trap"]);
}

#[test]
fn loops_agree_with_the_reference() {
    let counts = check_style(Style::Loops, 200);
    assert!(counts.slabs * 60 > counts.programs, "too few loops fill more than one slab of tape: {counts:?}");
    assert!(counts.nonzero * 4 > counts.programs, "too few gradients are not zero: {counts:?}");
    let usual = ["loop of one block", "load at a computed index", "load at an affine index", "loop along an array"];
    assert_common(&counts, 4, &usual);
    let usual = ["shift register", "selection in a loop", "builder in a loop", "object made in a loop"];
    assert_common(&counts, 4, &usual);
    assert_common(&counts, 4, &["chain in a loop of one block"]);
    let ends = ["loop until data say so", "loop of a computed number of rounds", "nested loop of one block"];
    assert_common(&counts, 8, &ends);
    let seldom = ["load in a loop that may trap", "division in a loop that may trap", "call in a loop of one block"];
    assert_common(&counts, 100, &seldom);
    assert_common(&counts, 20, &["loop of thousands of rounds", "load at twice the index"]);
    assert_common(&counts, 40, &["row in a loop"]);
    let in_place = ["updates along an array", "updates in a loop", "put", "element of a builder"];
    assert_common(&counts, 10, &in_place);
    assert_common(&counts, 10, &["range of an array", "builder that grows"]);
    assert_common(&counts, 20, &["update in a branch", "push beside updates", "elements change places"]);
}

#[test]
fn recursive_programs_agree_with_the_reference() {
    let counts = check_style(Style::Recursive, 100);
    let calls = ["tail call", "tail call of itself", "tail call of a closure", "call", "call of a closure"];
    assert_common(&counts, 10, &calls);
    assert_common(&counts, 20, &["push to any chain"]);
    // About one in fifty has.
    assert_common(&counts, 100, &["many parameters"]);
}

#[test]
fn programs_on_data_agree_with_the_reference() {
    let counts = check_style(Style::Data, 150);
    let objects = ["closure out of a struct", "closure out of a variant", "closure out of an array"];
    assert_common(&counts, 10, &objects);
    let usual = ["switch on a tag", "payload", "list made in a loop", "walk along a list", "array of arrays"];
    assert_common(&counts, 10, &usual);
    assert_common(&counts, 20, &["row"]);
    assert_common(&counts, 10, &["chain in a line", "chain in a loop", "walk along links", "push to any chain"]);
    let seldom = ["push in a branch", "push by another name", "empty chain", "chain without an end"];
    assert_common(&counts, 30, &seldom);
    assert_common(&counts, 40, &["end of any chain", "call between pushes"]);
    assert_common(&counts, 20, &["put by another name", "builder without an end"]);
    assert_common(&counts, 75, &["call between updates"]);
}

#[test]
fn parallel_programs_agree_with_the_reference() {
    let counts = check_style(Style::Parallel, 200);
    assert!(counts.nonzero * 3 > counts.programs, "too few gradients are not zero: {counts:?}");
    assert_common(&counts, 4, &["fork", "fork in another function", "parallel map", "loop over a range"]);
    assert_common(&counts, 20, &["fork after a fork", "lopsided fork", "parallel map along an array"]);
    let reads = ["range that reads an array of others in a loop", "range that reads at places of a table"];
    assert_common(&counts, 20, &reads);
    assert_common(&counts, 100, &["chain in a line", "chain in a loop", "tasks between pushes"]);
    let seldom = ["fork in a parallel map", "parallel map of many elements", "range that returns any array"];
    assert_common(&counts, 50, &seldom);
    assert_common(&counts, 400, &["parallel map of fewer elements than none"]);
    assert_common(&counts, 20, &["put", "range of an array", "builder that grows"]);
    assert_common(&counts, 100, &["tasks between updates"]);
}

/// A module of which some bytes are others: the decoder and the verifier refuse it, or all engines run it alike.
#[test]
fn damaged_modules_are_refused_or_run_alike() {
    let first = from_environment("DUALVM_FIRST_SEED").unwrap_or(0);
    let seeds = from_environment("DUALVM_SEEDS").unwrap_or(90);
    let corpus = std::env::var_os("DUALVM_CORPUS").map(std::path::PathBuf::from);
    let mut engines = Engines::new();
    let (mut run, mut refused) = (0, 0);
    for seed in first..first + seeds {
        let style = Style::ALL[seed as usize % Style::ALL.len()];
        let whole = binary::encode(&program(seed, style).module).expect("generated modules can be encoded");
        if let Some(corpus) = &corpus {
            std::fs::create_dir_all(corpus).expect("the corpus's directory can be made");
            std::fs::write(corpus.join(format!("{style:?}-{seed}")), &whole).expect("modules can be written");
        }
        let mut dice = Dice::with_seed(!seed);
        for time in 0..40 {
            let mut damaged = whole.clone();
            for _ in 0..dice.usize(1..4) {
                let at = dice.usize(..damaged.len());
                match dice.u8(..8) {
                    0 => drop(damaged.remove(at)),
                    1 => damaged.insert(at, dice.u8(..)),
                    // Near values are more often of the same kind: the next register, instruction, type.
                    2..5 => damaged[at] = damaged[at].wrapping_add(dice.pick(&[1, 0xff])),
                    5 => damaged[at] ^= 1 << dice.u8(..8),
                    _ => damaged[at] = dice.pick(&whole),
                }
            }
            let outcome =
                std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| bytes::decode(&damaged, &mut engines)));
            match outcome.unwrap_or_else(|_| Err("a panic".into())) {
                Ok(true) => run += 1,
                Ok(false) => refused += 1,
                Err(error) => panic!("seed {seed}, time {time}: {error}"),
            }
        }
    }
    println!("damaged modules: {run} were run, {refused} were refused");
    assert!(run * 50 > refused, "{run} were run, {refused} were refused");
}
