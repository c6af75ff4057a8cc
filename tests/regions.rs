//! Regions: loops that are recorded as one with inner loops and branches. Random nests, with every kind of way through
//! them, on all engines and against the reference.
//!
//! `DUALVM_SEEDS=n` tries n nests instead of 300, `DUALVM_FIRST_SEED=s` begins at another one.

mod support;

use dualvm_vm::engine::CallOptions;
use dualvm_vm::value::Value;
use fastrand::Rng;
use std::fmt::Write;
use support::check::check_seeds;
use support::generate::Program;
use support::{assemble, export_all, flatten, load};

/// Writes a nest: statements on the registers r0 to r9, whose values are 0 at first or parameters, i0 to i7, where i2
/// is 1, i4 is 7 and i6 and i7 are free, p0 (reals), p1 (integers), p2 (the row at hand), p3 (rows), p4 (a builder of
/// those before the nest), p6 with p11, p8 and p9 (builders of reals, rows and integers), p7 (reals that it makes), p13
/// with p14 and p15 (builders of eight reals), p16 (one of eight integers), q0 (an array of three structs), q1 (a list
/// of two reals), q2 (a struct at hand) and q3 (a list at hand).
struct Nest<'r> {
    rng: &'r mut Rng,
    text: String,
    labels: usize,
    pushes: bool,
    /// Whether it makes arrays, and whether one is being made.
    makes: bool,
    making: bool,
    /// Whether it changes arrays in place, and whether it looks into objects.
    changes: bool,
    looks: bool,
}

impl Nest<'_> {
    fn line(&mut self, line: &str) {
        writeln!(self.text, " {line}").expect("a string takes everything");
    }

    fn label(&mut self) -> usize {
        self.labels += 1;
        self.labels
    }

    fn real(&mut self) -> u8 {
        self.rng.u8(..10)
    }

    fn int(&mut self) -> u8 {
        // Counters of the loops around are among them, and what those step besides.
        [0, 1, 2, 4, 6, 7, 10, 11, 12, 27, 28][self.rng.usize(..11)]
    }

    fn instruction(&mut self) {
        let (dst, a, b, c) = (self.real(), self.real(), self.real(), self.real());
        let (i, j) = (self.int(), self.int());
        let unary = ["sin", "cos", "tanh", "atan", "neg", "abs", "sqrt", "exp"];
        let binary = ["add", "sub", "mul", "min", "max", "div", "smul"];
        let tame = self.rng.u8(..6) > 0;
        if self.changes && self.rng.u8(..4) == 0 {
            return self.change((dst, a, b), (i, j));
        }
        if self.looks && self.rng.u8(..5) == 0 {
            return self.look((dst, a, b), (i, j));
        }
        let line = match self.rng.u8(..20) {
            0..3 => format!("{} r{dst}, r{a}", unary[self.rng.usize(..if tame { 6 } else { 8 })]),
            3..8 => format!("{} r{dst}, r{a}, r{b}", binary[self.rng.usize(..if tame { 5 } else { 7 })]),
            8 => format!("fma r{dst}, r{a}, r{b}, r{c}"),
            9 => format!("lt i9, r{a}, r{b}\n select r{dst}, i9, r{c}, r{a}"),
            10 => format!("mov r{dst}, r{a}"),
            11 => format!("const r{dst}, {}", ["0.75", "-1.5", "0"][self.rng.usize(..3)]),
            12 => format!("to_real r{dst}, i{i}"),
            13..16 => format!("{}\n elem r{dst}, p0, i9", self.index((i, j))),
            16 => format!("{}\n elem r{dst}, p2, i9", self.index((i, j))),
            17 => format!("{}\n elem r{dst}, p7, i9", self.index((i, j))),
            18 => format!("{}\n ielem i{}, p1, i9", self.index((i, j)), 6 + j % 2),
            _ => format!("{} i{}, i{i}, i{j}", ["iadd", "isub", "imul"][self.rng.usize(..3)], 6 + j % 2),
        };
        self.line(&line);
    }

    /// Leaves an index in i9, that of one of eight elements. What it is made of may have been computed in blocks
    /// before.
    fn index(&mut self, (i, j): (u8, u8)) -> String {
        let on = self.label();
        let next = format!("jump l{on}\n l{on}:");
        match self.rng.u8(..8) {
            0 => format!("isub i25, i{i}, i2\n {next}\n iand i9, i25, i4"),
            1 => format!("iadd i25, i{i}, i{j}\n iand i9, i25, i4\n {next}"),
            2 => format!("iadd i25, i{i}, i{j}\n irem i25, i25, i4\n {next}\n iand i9, i25, i4"),
            3 => format!("isub i25, i{i}, i{j}\n {next}\n irem i25, i25, i4\n iand i9, i25, i4"),
            4 => format!("iand i25, i{i}, i4\n {next}\n imov i9, i25\n iadd i{}, i{i}, i{j}", 6 + j % 2),
            _ => format!("iand i9, i{i}, i4"),
        }
    }

    /// Reads or replaces elements of arrays that are changed in place, one of which goes by two names.
    fn change(&mut self, (dst, a, b): (u8, u8, u8), (i, j): (u8, u8)) {
        let [one, other] = [0, 0].map(|_| [13, 13, 14, 15][self.rng.usize(..4)]);
        let line = match self.rng.u8(..12) {
            0..3 => format!("{}\n get r{dst}, p{one}, i9", self.index((i, j))),
            3..5 => format!("{}\n put p{one}, i9, r{a}", self.index((i, j))),
            5 => format!(
                "iand i9, i{i}, i4\n get r{dst}, p{one}, i9\n fma r{dst}, r{a}, r{b}, r{dst}\n put p{one}, i9, r{dst}"
            ),
            6 => format!(
                "iand i9, i{i}, i4\n iand i25, i{j}, i4\n get r10, p{one}, i9\n get r11, p{other}, i25
                 put p{one}, i9, r11\n put p{other}, i25, r10"
            ),
            7 => format!("iand i9, i{i}, i4\n put p{one}, i9, r{a}\n iand i9, i{j}, i4\n get r{dst}, p{other}, i9"),
            8 => {
                let puts = (0..9).map(|n| format!("iand i9, i{}, i4\n put p{one}, i9, r{n}\n ", [i, j][n % 2]));
                puts.collect()
            }
            9 => ["pmov p15, p13", "pmov p13, p15", "pmov p15, p15"][self.rng.usize(..3)].to_string(),
            10 => format!("iand i9, i{i}, i4\n iget i{}, p16, i9", 6 + j % 2),
            _ => format!("iand i9, i{i}, i4\n iput p16, i9, i{j}"),
        };
        self.line(&line);
    }

    /// Looks into structs and lists.
    fn look(&mut self, (dst, a, b): (u8, u8, u8), (i, j): (u8, u8)) {
        let field = [0, 2][self.rng.usize(..2)];
        let line = match self.rng.u8(..7) {
            0 => format!("iand i9, i{i}, i2\n pelem q2, q0, i9\n field r{dst}, q2, {field}"),
            1 => format!("field r{dst}, q2, {field}"),
            2 => format!("ifield i{}, q2, 1", 6 + j % 2),
            3 => format!("payload r{dst}, q1, 1, 0"),
            4 => format!("pmov q3, q1\n ppayload q3, q3, 1, 1\n payload r{dst}, q3, 1, 0"),
            5 => format!("ppayload q3, q1, 1, 1\n field r{dst}, q2, {field}\n mul r{a}, r{dst}, r{b}"),
            _ => {
                let (head, body, out) = (self.label(), self.label(), self.label());
                format!(
                    "pmov q3, q1\n jump l{head}\n l{head}:\n variant_tag i9, q3\n branch i9, l{body}, l{out}\n l{body}:
                     payload r{dst}, q3, 1, 0\n fma r{a}, r{dst}, r{b}, r{a}\n ppayload q3, q3, 1, 1\n jump l{head}
                     l{out}:"
                )
            }
        };
        self.line(&line);
    }

    /// Makes i9 a condition.
    fn condition(&mut self) {
        let (a, b, i) = (self.real(), self.real(), self.int());
        let line = match self.rng.u8(..4) {
            0 => format!("lt i9, r{a}, r{b}"),
            1 => format!("const r{b}, 0.25\n le i9, r{a}, r{b}"),
            2 => format!("iand i9, i{i}, i2"),
            _ => format!("ilt i9, i{i}, i6"),
        };
        self.line(&line);
    }

    fn statements(&mut self, depth: usize) {
        for _ in 0..self.rng.usize(1..5) {
            self.statement(depth);
        }
    }

    fn statement(&mut self, depth: usize) {
        match self.rng.u8(..16) {
            0..3 => self.branch(depth),
            3..5 if depth < 3 => self.counted(depth),
            5 if depth < 3 => self.until(depth),
            14 if depth < 2 => self.outer_goes_on(depth),
            6 => {
                let i = self.int();
                self.line(&format!("iand i9, i{i}, i2\n pelem p2, p3, i9"));
            }
            7 if self.pushes => {
                let (a, i) = (self.real(), self.int());
                let copied = self.copied();
                let line = match self.rng.u8(..3) {
                    0 => format!("iand i14, i{i}, i4\n extend p4, {copied}, i14, i4"),
                    _ => format!("push p4, r{a}"),
                };
                self.line(&line);
            }
            8 if self.rng.u8(..3) == 0 => self.switch(depth),
            10..12 if self.makes && !self.making && depth < 3 => self.array(depth),
            12 if depth < 4 => self.search(),
            13 if self.rng.u8(..3) == 0 => {
                // Mostly it doesn't trap.
                let (trap, on, i) = (self.label(), self.label(), self.int());
                let at = if self.rng.u8(..12) == 0 { 3 } else { 12345 };
                self.line(&format!("iconst i25, {at}\n ieq i9, i{i}, i25\n branch i9, l{trap}, l{on}"));
                self.line(&format!("l{trap}:\n iadd i9, i9, i2\n trap m0\n l{on}:"));
            }
            9 if self.rng.u8(..4) == 0 => {
                let on = self.label();
                self.condition();
                self.line(&format!("branch i9, done, l{on}\n l{on}:"));
            }
            _ => self.instruction(),
        }
    }

    fn branch(&mut self, depth: usize) {
        let (then, other, join) = (self.label(), self.label(), self.label());
        self.condition();
        if self.rng.bool() {
            self.line(&format!("branch i9, l{then}, l{join}\n l{then}:"));
            self.statements(depth + 1);
            self.line(&format!("jump l{join}\n l{join}:"));
        } else {
            self.line(&format!("branch i9, l{then}, l{other}\n l{then}:"));
            self.statements(depth + 1);
            self.line(&format!("jump l{join}\n l{other}:"));
            self.statements(depth + 1);
            self.line(&format!("jump l{join}\n l{join}:"));
        }
    }

    /// A loop that looks for something among numbers which are only compared, for the most part: r10 and r11.
    fn search(&mut self) {
        let (body, found, on, out) = (self.label(), self.label(), self.label(), self.label());
        let (a, b, dst) = (self.real(), self.real(), self.real());
        let array = ["p0", "p2", "p7"][self.rng.usize(..3)];
        self.line(&format!("iconst i24, 0\n const r10, 0.5\n jump l{body}\n l{body}:"));
        if self.rng.u8(..3) == 0 {
            self.line("iand i9, i24, i2\n pelem p2, p3, i9");
        }
        if self.rng.bool() {
            let (inner, after) = (self.label(), self.label());
            self.line(&format!("iconst i25, 0\n jump l{inner}\n l{inner}:\n elem r11, {array}, i25"));
            self.line(&format!("fma r10, r11, r{a}, r10\n iadd i25, i25, i2\n ilt i9, i25, i4"));
            self.line(&format!("branch i9, l{inner}, l{after}\n l{after}:"));
        } else {
            self.line(&format!("elem r11, {array}, i24\n mul r10, r11, r{a}"));
        }
        let i = 6 + self.rng.u8(..2);
        self.line(&format!("lt i9, r10, r{b}"));
        if self.rng.bool() {
            let to = if self.rng.bool() { out } else { on };
            self.line(&format!("branch i9, l{found}, l{on}\n l{found}:\n imov i{i}, i24\n jump l{to}\n l{on}:"));
        } else {
            self.line(&format!("iselect i{i}, i9, i24, i{i}"));
        }
        if self.rng.u8(..8) == 0 {
            let goes_on = self.label();
            self.condition();
            self.line(&format!("branch i9, done, l{goes_on}\n l{goes_on}:"));
        }
        self.line(&format!("iadd i24, i24, i2\n ilt i9, i24, i4\n branch i9, l{body}, l{out}\n l{out}:"));
        if self.rng.u8(..6) == 0 {
            self.line(&format!("add r{dst}, r{dst}, r10"));
        }
    }

    fn switch(&mut self, depth: usize) {
        let arms: Vec<usize> = (0..3).map(|_| self.label()).collect();
        let join = self.label();
        let i = self.int();
        let [a, b, c] = arms[..] else { unreachable!("there are three") };
        self.line(&format!("iand i9, i{i}, i4\n switch i9, [l{a}, l{b}, l{a}], l{c}"));
        for arm in arms {
            self.line(&format!("l{arm}:"));
            self.statements(depth + 1);
            self.line(&format!("jump l{join}"));
        }
        self.line(&format!("l{join}:"));
    }

    /// Puts into a register how far a loop counts: a number, or what is made of the counters of loops around.
    fn bound(&mut self, depth: usize, bound: usize) {
        let rounds = [0, 1, 2, 3, 5][self.rng.usize(..5)];
        let outer = 10 + self.rng.usize(..depth);
        let line = match self.rng.u8(..8) {
            0 => format!("isub i{bound}, i4, i1"),
            1 if depth > 1 => format!("imov i{bound}, i{outer}"),
            2 if depth > 1 => format!("iadd i{bound}, i{outer}, i2"),
            3 if depth > 1 => format!("iadd i7, i{outer}, i2\n isub i{bound}, i4, i7"),
            4 => format!("isub i{bound}, i4, i1\n isub i6, i{bound}, i2\n ineg i7, i{bound}"),
            _ => format!("iconst i{bound}, {rounds}"),
        };
        self.line(&line);
    }

    /// Begins with an integer that a loop steps besides its counter. Returns what steps it.
    fn second_counter(&mut self, depth: usize, counter: usize) -> String {
        let outer = 10 + self.rng.usize(..depth);
        let line = match self.rng.u8(..6) {
            0 => format!("imov i{counter}, i{outer}"),
            1 => format!("iadd i{counter}, i{outer}, i2"),
            2 => format!("isub i{counter}, i4, i1"),
            3 => format!("iconst i{counter}, 1"),
            4 => format!("iconst i{counter}, 0"),
            _ => return String::new(),
        };
        self.line(&line);
        let step = ["iadd", "iadd", "isub"][self.rng.usize(..3)];
        let by = ["i2", "i2", "i4", "i0"][self.rng.usize(..4)];
        format!("{step} i{counter}, i{counter}, {by}\n ")
    }

    /// A loop with a counter, with its test at the end or at the head; maybe with another way on, and one out. Most
    /// counters begin at 0, and some of them in one of two ways.
    fn counted(&mut self, depth: usize) {
        let counter = 10 + depth;
        let (body, out) = (self.label(), self.label());
        let mut start = || if self.rng.u8(..6) > 0 { 0 } else { self.rng.u8(1..3) };
        let (first, second) = (start(), start());
        self.line(&format!("iconst i{counter}, {first}"));
        self.bound(depth, counter + 10);
        let second_step = self.second_counter(depth, 26 + depth);
        let test = |then: usize| format!("ilt i9, i{counter}, i{}\n branch i9, l{then}, l{out}", counter + 10);
        // By 1 for the most part, or by 7, or by 1 twice.
        let by = ["i2", "i2", "i2", "i2", "i2", "i4"][self.rng.usize(..6)];
        let step = format!("iadd i{counter}, i{counter}, {by}\n ").repeat(if self.rng.u8(..6) == 0 { 2 } else { 1 });
        let step = second_step + &step;
        if self.rng.bool() {
            if self.rng.u8(..4) == 0 {
                let (one, other) = (self.label(), self.label());
                self.condition();
                self.line(&format!("branch i9, l{one}, l{other}\n l{other}:\n iconst i{counter}, {second}"));
                self.line(&format!("jump l{body}\n l{one}:\n iconst i{counter}, {first}"));
            }
            self.line(&format!("{}\n l{body}:", test(body)));
            self.statements(depth + 1);
            self.line(&format!("{step}\n {}\n l{out}:", test(body)));
        } else {
            let (head, on) = (self.label(), self.label());
            self.line(&format!("jump l{head}\n l{head}:\n {}\n l{body}:", test(body)));
            self.statements(depth + 1);
            if self.rng.bool() {
                self.condition();
                let to = if self.rng.bool() { out } else { head };
                self.line(&format!("{step}\n branch i9, l{to}, l{on}\n l{on}:"));
                self.line(&format!("jump l{head}\n l{out}:"));
            } else {
                self.line(&format!("{step}\n jump l{head}\n l{out}:"));
            }
        }
    }

    /// A loop in a loop, from which control goes back to the head of the outer one, with the inner one's test at its
    /// end or at its head; maybe in another way, too.
    fn outer_goes_on(&mut self, depth: usize) {
        let (outer, inner) = (10 + depth, 11 + depth);
        let (head, again, body, out) = (self.label(), self.label(), self.label(), self.label());
        let [rounds, inner_rounds] = [0, 0].map(|_| [0, 1, 2, 4][self.rng.usize(..4)]);
        let at_end = self.rng.bool();
        self.line(&format!("iconst i{outer}, 0\n iconst i{}, {rounds}", outer + 10));
        self.line(&format!("iconst i{}, {inner_rounds}\n jump l{head}\n l{head}:", inner + 10));
        self.line(&format!("iconst i{inner}, 0\n iadd i{outer}, i{outer}, i2\n ilt i9, i{}, i{outer}", outer + 10));
        self.line(&format!("branch i9, l{out}, l{again}\n l{again}:"));
        let test =
            format!("ilt i9, i{inner}, i{}\n branch i9, l{}, l{head}", inner + 10, if at_end { again } else { body });
        if !at_end {
            self.line(&format!("{test}\n l{body}:"));
        }
        self.statements(depth + 2);
        if self.rng.u8(..3) == 0 {
            let on = self.label();
            self.condition();
            self.line(&format!("branch i9, l{head}, l{on}\n l{on}:"));
        }
        self.line(&format!("iadd i{inner}, i{inner}, i2"));
        self.line(&if at_end { test } else { format!("jump l{again}") });
        self.line(&format!("l{out}:"));
    }

    /// An array of eight elements, or a builder that is never finished.
    fn array(&mut self, depth: usize) {
        let on = self.label();
        match self.rng.u8(..13) {
            8.. => self.changed_where_made(depth),
            0 => {
                let pushes = "ipush p9, i6\n ipush p9, i7\n ".repeat(4);
                self.line(&format!("iconst i14, 8\n build p9, i14\n {pushes} finish p1, p9"));
            }
            1 => self.line("iconst i14, 4\n build p8, i14\n ppush p8, p7\n ppush p8, p2\n finish p3, p8"),
            2 => {
                let copy = ["pmov p2, p7", "pmov p7, p2"][self.rng.usize(..2)];
                self.line(copy);
            }
            3 => {
                let a = self.real();
                self.line(&format!("build p6, i4\n push p6, r{a}"));
                if self.rng.bool() {
                    // Abandons it, or makes it and abandons another one, in a loop that may be skipped.
                    let (counter, body, b) = (15 + depth, self.label(), self.real());
                    let step = ["build p6, i14", "finish p1, p9\n build p9, i14", "finish p12, p6\n build p6, i14"];
                    let step = step[self.rng.usize(..3)];
                    self.line(&format!(
                        "iconst i14, 3\n build p9, i14\n iconst i{counter}, 0\n jump l{body}\n l{body}:"
                    ));
                    self.line(&format!("{step}\n sin r{b}, r{b}\n iadd i{counter}, i{counter}, i2"));
                    self.line(&format!("ile i9, i{counter}, i2\n branch i9, l{body}, l{on}\n l{on}:"));
                    let eight = "iconst i14, 8\n build p9, i14\n".to_string() + &" ipush p9, i6\n".repeat(8);
                    self.line(&format!("{eight} finish p1, p9\n push p6, r{b}"));
                    if self.rng.bool() {
                        self.line("finish p12, p6");
                    }
                    return;
                }
            }
            kind => {
                // It is begun in one register, and may go on in another one.
                let (first, name) = [(6, 6), (6, 6), (6, 11), (11, 6), (11, 11)][self.rng.usize(..5)];
                self.line(&format!("iconst i14, 9\n build p{first}, i14"));
                let moves = first != name;
                if moves {
                    self.line(&format!("pmov p{name}, p{first}"));
                }
                // The first one may have another builder then.
                let another = moves && self.rng.u8(..3) == 0;
                if another {
                    self.line(&format!("build p{first}, i14"));
                }
                let other = if self.rng.u8(..4) == 0 { first } else { name };
                if kind == 4 {
                    for n in 0..8 {
                        let a = self.real();
                        self.line(&format!("push p{}, r{a}", if n % 2 == 0 && !another { other } else { name }));
                    }
                } else {
                    let (counter, body, a) = (15 + depth, self.label(), self.real());
                    self.line(&format!("iconst i{counter}, 0\n jump l{body}\n l{body}:"));
                    self.making = true;
                    if self.rng.bool() {
                        self.statements(depth + 1);
                    } else {
                        self.instruction();
                    }
                    self.making = false;
                    let pushed = if another { name } else { other };
                    self.line(&format!("push p{pushed}, r{a}"));
                    if another {
                        let b = self.real();
                        self.line(&format!("push p{first}, r{b}"));
                    }
                    self.line(&format!("iadd i{counter}, i{counter}, i2\n ile i9, i{counter}, i4"));
                    self.line(&format!("branch i9, l{body}, l{on}\n l{on}:"));
                }
                if another && kind != 4 {
                    let to = [2, 12][self.rng.usize(..2)];
                    self.line(&format!("finish p{to}, p{first}"));
                }
                let to = [7, 2][self.rng.usize(..2)];
                self.line(&format!("finish p{to}, p{name}"));
                if self.rng.u8(..3) == 0 {
                    let (a, b) = (self.real(), self.real());
                    let pushes = format!("push p6, r{a}\n push p6, r{b}\n ").repeat(4);
                    self.line(&format!("build p6, i14\n {pushes} finish p2, p6\n build p6, i14\n push p6, r{b}"));
                }
            }
        }
        // What has just been made is mostly read in another block.
        if self.rng.u8(..8) > 0 {
            let on = self.label();
            self.line(&format!("jump l{on}\n l{on}:"));
        }
    }

    /// One of the arrays of eight reals.
    fn copied(&mut self) -> &'static str {
        ["p0", "p2", "p7", "p10"][self.rng.usize(..4)]
    }

    /// An array of eight elements that is made, of others for the most part, and changed before it is finished.
    fn changed_where_made(&mut self, depth: usize) {
        let (first, name) = [(6, 6), (6, 11), (11, 6), (11, 11)][self.rng.usize(..4)];
        self.line(&format!("iconst i14, 9\n build p{first}, i14\n iconst i26, 0\n iconst i29, 8"));
        let (one, other, a, i) = (self.copied(), self.copied(), self.real(), self.int());
        let begin = match self.rng.u8(..5) {
            0 => format!("extend p{first}, {one}, i26, i29"),
            1 => format!("iand i14, i{i}, i4\n extend p{first}, {one}, i26, i14\n extend p{first}, {other}, i14, i29"),
            2 => format!("push p{first}, r{a}\n extend p{first}, {one}, i2, i4\n push p{first}, r{a}"),
            3 => format!("extend p{first}, {one}, i26, i4\n sin r{a}, r{a}\n push p{first}, r{a}"),
            _ => format!(" push p{first}, r{a}\n").repeat(8),
        };
        self.line(&begin);
        if first != name {
            self.line(&format!("pmov p{name}, p{first}"));
        }
        if self.rng.u8(..4) > 0 {
            let on = self.label();
            self.line(&format!("jump l{on}\n l{on}:"));
        }
        for _ in 0..self.rng.usize(1..4) {
            if self.rng.bool() {
                let (counter, body, on) = (15 + depth, self.label(), self.label());
                self.line(&format!("iconst i{counter}, 0\n jump l{body}\n l{body}:"));
                self.making = true;
                self.change_made([first, name]);
                if self.rng.bool() {
                    self.statements(depth + 1);
                } else {
                    self.instruction();
                }
                self.change_made([first, name]);
                self.making = false;
                self.line(&format!("iadd i{counter}, i{counter}, i2\n ile i9, i{counter}, i4"));
                self.line(&format!("branch i9, l{body}, l{on}\n l{on}:"));
            } else {
                self.change_made([first, name]);
                self.instruction();
            }
        }
        let (by, to) = ([first, name][self.rng.usize(..2)], [7, 2][self.rng.usize(..2)]);
        if self.rng.u8(..8) == 0 {
            let (finished, on) = (self.label(), self.label());
            self.condition();
            self.line(&format!(
                "branch i9, l{finished}, l{on}\n l{finished}:\n finish p{to}, p{by}\n jump l{on}\n l{on}:"
            ));
        } else {
            self.line(&format!("finish p{to}, p{by}"));
        }
    }

    /// Reads or replaces elements of an array that is being made, which goes by two names.
    fn change_made(&mut self, names: [u8; 2]) {
        let (dst, a, b, i, j) = (self.real(), self.real(), self.real(), self.int(), self.int());
        let [one, other] = [0, 0].map(|_| names[self.rng.usize(..2)]);
        let index = self.index((i, j));
        let line = match self.rng.u8(..6) {
            0 => format!("{index}\n get r{dst}, p{one}, i9"),
            1 => format!("{index}\n put p{one}, i9, r{a}"),
            2 => {
                format!("{index}\n get r{dst}, p{one}, i9\n fma r{dst}, r{a}, r{b}, r{dst}\n put p{other}, i9, r{dst}")
            }
            3 => format!("{index}\n put p{one}, i9, r{a}\n iand i9, i{j}, i4\n get r{dst}, p{other}, i9"),
            4 => format!("{index}\n put p{one}, i9, r{a}\n iand i9, i{j}, i4\n put p{other}, i9, r{b}"),
            _ => format!(
                "{index}\n get r{dst}, p{one}, i9\n iand i9, i{j}, i4\n get r{a}, p{one}, i9\n mul r{b}, r{a}, r{dst}"
            ),
        };
        self.line(&line);
    }

    /// A loop until data say so.
    fn until(&mut self, depth: usize) {
        let counter = 10 + depth;
        let (body, on, out) = (self.label(), self.label(), self.label());
        self.line(&format!("iconst i{counter}, 4\n jump l{body}\n l{body}:"));
        self.statements(depth + 1);
        self.condition();
        self.line(&format!("branch i9, l{on}, l{out}\n l{on}:\n isub i{counter}, i{counter}, i2"));
        self.line(&format!("branch i{counter}, l{body}, l{out}\n l{out}:"));
    }
}

/// A module whose `main` runs a nest: of two reals, an array of eight reals, one of eight integers and a number of
/// rounds of the outermost loop. `tasks`: two tasks run it.
fn source(rng: &mut Rng, rounds_max: usize) -> (String, usize) {
    let pushes = rng.u8(..3) == 0;
    let tasks = rng.u8(..3) == 0;
    let makes = rng.bool();
    let (changes, looks) = (rng.bool(), rng.bool());
    let mut nest = Nest { rng, text: String::new(), labels: 0, pushes, makes, making: false, changes, looks };
    for _ in 0..2 {
        nest.statements(1);
    }
    if nest.rng.bool() {
        nest.counted(1);
    }
    let body = nest.text;
    let rounds = [1, 2, 5, 40, rounds_max, rounds_max][rng.usize(..6)];
    let zero: String = (2..10).map(|n| format!(" const r{n}, 0.{n}\n")).collect();
    let ints: String =
        [6, 7, 10, 11, 12, 13, 20, 21, 22, 23, 27, 28].map(|n| format!(" iconst i{n}, {}\n", n % 3)).concat();
    let weigh = if pushes {
        "finish p5, p4\n iconst i1, 0\n len i6, p5\n ilt i9, i1, i6\n branch i9, weigh, end\n weigh:\n elem r1, p5, i1
         to_real r2, i1\n sin r2, r2\n fma r0, r1, r2, r0\n iadd i1, i1, i2\n ilt i9, i1, i6\n branch i9, weigh, end\n end:"
    } else {
        ""
    };
    // What is not read after the nest is useful only if something else is made of it.
    let read = if rng.bool() { 10 } else { 3 + rng.usize(..4) };
    let read: String = (3..read).map(|n| format!("add r0, r0, r{n}\n ")).collect();
    // Some of the elements depend on something, or all, or none.
    let fill = ["extend p13, p0, i1, i6", "extend p13, p10, i1, i6", "extend p13, p2, i1, i6"][rng.usize(..3)];
    let (begin, weigh_changed) = if changes {
        let second = ["extend p14, p10, i1, i6", "extend p14, p2, i1, i6"][rng.usize(..2)];
        let begin = format!(
            "iconst i1, 0\n iconst i6, 8\n build p13, i6\n build p14, i6\n build p16, i6\n {fill}\n {second}
             extend p16, p1, i1, i6\n pmov p15, p13\n iconst i6, 0\n "
        );
        let name = 13 + 2 * rng.u8(..2);
        let weigh = format!(
            "get r1, p{name}, i4\n fma r0, r1, r1, r0\n finish p5, p14\n elem r1, p5, i2\n fma r0, r1, r0, r0
             finish p5, p{name}\n iconst i1, 0\n iconst i6, 8\n jump changed\n changed:\n elem r1, p5, i1\n to_real r2, i1
             cos r2, r2\n fma r0, r1, r2, r0\n iadd i1, i1, i2\n ilt i9, i1, i6\n branch i9, changed, last\n last:\n"
        );
        (begin, weigh)
    } else {
        (String::new(), String::new())
    };
    // Rows that depend on nothing, which the one at hand may give way to.
    let rows = ["(p2, p0)", "(p10, p2)", "(p10, p10)"][rng.usize(..3)];
    let nested = format!(
        "func f0 \"nest\" (real, real, t0, t1, int, t7, t8) -> (real)
         regs 12 real, 30 int, t0, t1, t7, t8, t0, t2, t3, t0, t3, t0, t4, t5, t0, t3, t0, t3, t3, t3, t5, t6, t8\n{{
         {zero}{ints} iconst i2, 1\n iconst i4, 7\n iconst i3, 0\n elem r4, p0, i3\n elem r5, p0, i2\n elem r6, p0, i4
         mul r7, r0, r1\n pack p2 (r4, r0, r1, r4, r7, r5, r6, r0)\n pack p10 (r2, r3, r8, r9, r8, r3, r2, r2)
         pack p3 {rows}\n pmov p7, p0\n iconst i1, 20000\n build p4, i1
         {begin}iconst i1, 0\n pelem q2, q0, i1\n jump around\n around:\n{body} iadd i1, i1, i2\n ilt i9, i1, i0\n branch i9, around, done
         done:\n elem r1, p7, i4\n elem r2, p2, i2\n fma r0, r1, r2, r0\n {read}{weigh_changed}{weigh}\n ret (r0)\n}}\n"
    );
    let nested = with_parameters(&nested);
    let call = if tasks {
        "fork 2\n task f0 (r0, r1, p0, p1, i0, p4, p6) -> (r2)\n task f0 (r1, r0, p0, p1, i0, p4, p6) -> (r3)\n add r0, r2, r3"
    } else {
        "call f0 (r0, r1, p0, p1, i0, p4, p6) -> (r0)"
    };
    let main = format!(
        "func f1 \"main\" (real, real, t0, t1, int) -> (real)\n regs 4 real, 2 int, t0, t1, t6, t6, t7, t8, t8\n{{
         iconst i1, 3\n mul r2, r0, r1\n const r3, 0.75\n struct_new p2 (r2, i1, r3)\n struct_new p3 (r3, i0, r3)
         pack p4 (p2, p3)\n variant_new p5, 0 ()\n variant_new p5, 1 (r2, p5)\n variant_new p6, 1 (r3, p5)
         {call}\n ret (r0)\n}}\n"
    );
    let types = "message m0 \"no more\"\ntype t0 = array real\n type t1 = array int\n type t2 = array t0\n type t3 = builder real\n
                 type t4 = builder t0\ntype t5 = builder int\ntype t6 = struct { real, int, real }\ntype t7 = array t6
                 type t8 = variant { Nil {}, Cons { real, t8 } }\n";
    (format!("{types}{nested}{main}"), rounds)
}

/// The same code with registers p2 and p3 for q0 and q1, which are parameters, and others for what they were.
fn with_parameters(code: &str) -> String {
    let mut written = String::with_capacity(code.len());
    let mut rest = code;
    while let Some(at) = rest.find(['p', 'q']) {
        let (before, found) = rest.split_at(at);
        let digits = found[1..].len() - found[1..].trim_start_matches(|c: char| c.is_ascii_digit()).len();
        let is_register = digits > 0 && !before.ends_with(|c: char| c.is_ascii_alphanumeric() || c == '_');
        written.push_str(before);
        if !is_register {
            written.push_str(&found[..1]);
            rest = &found[1..];
            continue;
        }
        let number: usize = found[1..=digits].parse().expect("it is made of digits");
        let number = match (&found[..1], number) {
            ("p", 0 | 1) => number,
            ("p", _) | ("q", 0 | 1) => number + 2,
            _ => number + 17,
        };
        write!(written, "p{number}").expect("a string takes everything");
        rest = &found[1 + digits..];
    }
    written + rest
}

fn nest(seed: u64, rounds_max: usize) -> Program {
    let mut rng = Rng::with_seed(seed);
    let (text, rounds) = source(&mut rng, rounds_max);
    let mut module = assemble(&text);
    export_all(&mut module);
    let xs = (0..8).map(|_| rng.f64() * 3.0 - 1.5).collect();
    let ks = (0..8).map(|_| Value::Int(rng.i64(-9..10))).collect();
    let args = vec![
        Value::Real(rng.f64() * 2.0 - 0.5),
        Value::Real(rng.f64() * 3.0 - 1.5),
        Value::Reals(xs),
        Value::Array(ks),
        Value::Int(rounds as i64),
    ];
    Program { module, args, tame: false, notes: Vec::new(), source: None }
}

#[test]
fn random_nests_agree_with_the_reference() {
    let counts = check_seeds("nests", 200, |seed| nest(seed, 1500));
    assert!(counts.nonzero * 4 > counts.programs, "too few gradients are not zero: {counts:?}");
    assert!(counts.slabs * 30 > counts.programs, "too few trails fill more than one slab: {counts:?}");
}

#[test]
fn a_function_of_many_registers_computes_what_it_does_with_few() {
    // A block that saves hundreds of values in registers that it overwrites.
    let text = |regs: usize| {
        let terms = "elem r2, p0, i1\n elem r3, p0, i2\n fma r0, r2, r3, r0\n".repeat(300);
        format!(
            "type t0 = array real\nfunc f0 \"f\" (real, t0, int) -> (real)\n regs {regs} real, {regs} int, t0\n{{
             iconst i1, 0\n iconst i2, 1\n jump head\n head:\n {terms}\n branch i1, odd, on\n odd:\n sin r0, r0\n jump on
             on:\n iadd i1, i1, i2\n ilt i3, i1, i0\n branch i3, head, done\n done:\n ret (r0)\n}}"
        )
    };
    let args = [Value::Real(0.25), Value::Reals(vec![0.001, 0.002, 0.003]), Value::Int(2)];
    let gradient = |regs: usize| {
        let mut module = assemble(&text(regs));
        export_all(&mut module);
        let f = load(module).function("f").expect("it is exported");
        let found = f.value_and_grad_with(&args, &CallOptions::default()).unwrap_or_else(|error| panic!("{error}"));
        (found.value, flatten(&found.gradient), found.stats.instructions)
    };
    let few = gradient(4);
    assert_eq!(gradient(59_000), few);
    // No region: there are too few registers left.
    let (value, derivatives, _) = gradient(65_000);
    assert_eq!(value, few.0);
    for (found, expected) in derivatives.iter().zip(&few.1) {
        assert!((found - expected).abs() <= 1e-12 * expected.abs(), "{found}, {expected}");
    }
}

#[test]
fn what_goes_round_in_two_ways_is_no_region_and_pays_for_its_sweep() {
    // Control comes to `a` and to `b` from `head`, and from each other.
    let mut module = assemble(
        "func f0 \"f\" (real, int) -> (real)\n regs 4 real, 6 int\n{\n iconst i1, 0\n iconst i2, 1\n iconst i4, 3\n jump head
         head:\n iand i5, i1, i2\n branch i5, a, b\n a:\n sin r0, r0\n iadd i1, i1, i2\n jump b\n b:\n cos r1, r0
         mul r0, r0, r1\n iadd i1, i1, i2\n ilt i5, i1, i0\n branch i5, a, latch\n latch:\n isub i4, i4, i2
         branch i4, head, done\n done:\n ret (r0)\n}",
    );
    export_all(&mut module);
    let f = load(module).function("f").expect("it is exported");
    let args = [Value::Real(0.5), Value::Int(10_000)];
    let forward = f.call_with(&args, &CallOptions::default()).expect("it runs").1.instructions;
    let whole = f.value_and_grad_with(&args, &CallOptions::default()).expect("it runs").stats.instructions;
    assert!(whole > forward + 10_000, "{forward} forward, {whole} in all");
}

#[test]
fn rounds_that_a_bound_tells_leave_nothing_in_the_trail() {
    // The sum of the products of all pairs. What is before the inner loop also computes where that reads: at an index
    // that is made of its own one, or that it steps itself.
    let program = |bound: &str, stepped: bool| {
        let (made, step) =
            if stepped { ("imov i6, i6", "isub i6, i6, i2") } else { ("isub i6, i7, i5", "imov i6, i6") };
        let mut module = assemble(&format!(
            "type t0 = array real\nfunc f0 \"f\" (t0, int) -> (real)\n regs 4 real, 9 int, t0\n{{
             iconst i1, 0\n iconst i2, 1\n iconst i8, 2\n const r0, 0.0\n ilt i3, i1, i0\n branch i3, row, done
             row:\n elem r1, p0, i1\n isub i7, i1, i2\n imov i6, i7\n {bound}\n iconst i5, 0\n ilt i3, i5, i4\n branch i3, round, next
             round:\n {made}\n elem r2, p0, i6\n fma r0, r1, r2, r0\n {step}\n iadd i5, i5, i2\n ilt i3, i5, i4
             branch i3, round, next\n next:\n iadd i1, i1, i2\n ilt i3, i1, i0\n branch i3, row, done\n done:\n ret (r0)\n}}"
        ));
        export_all(&mut module);
        load(module).function("f").expect("it is exported")
    };
    let run_with = |bound: &str, stepped: bool, n: usize| {
        let xs: Vec<f64> = (0..n).map(|k| 0.5 + k as f64).collect();
        let args = [Value::Reals(xs.clone()), Value::Int(n as i64)];
        let found = program(bound, stepped).value_and_grad_with(&args, &CallOptions::default());
        let found = found.unwrap_or_else(|error| panic!("{error}"));
        let all: f64 = xs.iter().sum();
        let expected: Vec<f64> = xs.iter().map(|x| all - x).collect();
        assert_eq!(flatten(&found.gradient)[..n], expected, "{bound}, {n}");
        (found.stats.records, found.stats.tape_bytes)
    };
    let run = |bound: &str, n: usize| run_with(bound, false, n);
    // A copy of the outer index, and what is computed from it.
    for bound in ["imov i4, i1", "iadd i4, i7, i2", "imul i4, i8, i1\n isub i4, i4, i1"] {
        let (records, small) = run(bound, 2);
        assert_eq!(records, 1, "{bound}");
        // An element, which the inner loop doesn't change.
        assert_eq!([7, 40].map(|n| run(bound, n as usize).1), [7, 40].map(|n| small + 8 * (n - 2)), "{bound}");
    }
    // What the loop steps besides its index holds something else where it is left.
    for n in [2, 7, 40] {
        run_with("imov i4, i1", true, n);
    }
    // What isn't computed again: rounds, which way, and where the loop reads first.
    let untold = "iand i4, i1, i1";
    assert_eq!(run(untold, 40).1, run(untold, 7).1 + 33 * (8 + 17));
}
