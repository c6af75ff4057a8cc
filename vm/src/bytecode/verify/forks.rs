//! Rules on forks: a `fork` and the `task` instructions after it, which make a *group* of calls that may run at the
//! same time.
//!
//! What a task's operands are is checked with all other instructions, in `typing`. Here is what the instructions of a
//! group ask of each other, and that control enters a group at its fork only. Since no task takes what an earlier one
//! of its group returns, and no two of them return to one register, whoever looks at the instructions one after the
//! other (the rule on assignment does, and so does whoever asks what is live) sees what the group as a whole does.

use super::{Fault, Report, Rule, limits};
use crate::bytecode::isa::{Bank, Inst, Op, Operand, Reg};
use crate::bytecode::module::{Body, Function};

/// Checks a function in which registers, lists and targets are in range.
pub(super) fn check(function: &Function, report: &mut Report) {
    let body = &function.body;
    let is_part = |inst: &Inst| matches!(inst.op, Op::Fork | Op::Task);
    if !body.code.iter().any(is_part) {
        return;
    }
    check_targets(body, report);
    let mut results = Results::new(body);
    let mut at = 0;
    while at < body.code.len() && !report.is_full() {
        at += match body.code[at].op {
            Op::Fork => 1 + check_group(body, at, &mut results, report),
            Op::Task => {
                let fault = Fault::new(Rule::TaskPlace, "tasks right after their fork only", "one task more");
                report.fail_at(at, fault);
                1
            }
            _ => 1,
        };
    }
}

/// No jump, branch or switch leads to a task.
fn check_targets(body: &Body, report: &mut Report) {
    let is_task = |target: u32| body.code[target as usize].op == Op::Task;
    for (at, inst) in body.code.iter().enumerate() {
        if !inst.op.has_targets() {
            continue;
        }
        let task = operands(inst, body).into_iter().find_map(|operand| match operand {
            Operand::Target(target) => Some(target).filter(|&target| is_task(target)),
            Operand::Targets(list) => list.into_iter().find(|&target| is_task(target)),
            _ => None,
        });
        if let Some(task) = task {
            let found = format!("{task}, a task");
            report.fail_at(at, Fault::new(Rule::TaskTarget, "a target that is not inside of a group", found));
        }
    }
}

/// Checks the group of the fork at an instruction. Returns how many tasks belong to it.
fn check_group(body: &Body, fork: usize, results: &mut Results, report: &mut Report) -> usize {
    let count = body.code[fork].imm as i64;
    let following = body.code[fork + 1..].iter().take_while(|inst| inst.op == Op::Task).count();
    let Some(count) = usize::try_from(count).ok().filter(|count| (1..=limits::FORK_TASKS_MAX).contains(count)) else {
        let expected = format!("1 to {} tasks", limits::FORK_TASKS_MAX);
        report.fail_at(fork, Fault::new(Rule::ForkCount, expected, count.to_string()));
        return following;
    };
    if following < count {
        let expected = format!("{count} `task` instructions right after the fork");
        report.fail_at(fork, Fault::new(Rule::ForkTasks, expected, following.to_string()));
        return following;
    }
    results.begin();
    let mut taken = Registers::new("arguments");
    let mut given = Registers::new("results");
    for at in fork + 1..=fork + count {
        let (uses, defs) = body.reg_lists(&body.code[at]);
        let checked = taken
            .add(uses)
            .and_then(|()| given.add(defs))
            .and_then(|()| uses.iter().try_for_each(|&reg| results.check_argument(reg)))
            .and_then(|()| defs.iter().try_for_each(|&reg| results.add(reg)));
        if let Err(fault) = checked {
            report.fail_at(at, fault);
            break;
        }
    }
    count
}

fn operands(inst: &Inst, body: &Body) -> Vec<Operand> {
    body.operands(inst).expect("lists were found to be inside the pools")
}

/// Counts the registers that the tasks of a group take or give, by bank.
struct Registers {
    what: &'static str,
    counts: [usize; 3],
}

impl Registers {
    fn new(what: &'static str) -> Self {
        Registers { what, counts: [0; 3] }
    }

    fn add(&mut self, regs: &[Reg]) -> Result<(), Fault> {
        regs.iter().for_each(|reg| self.counts[reg.bank as usize] += 1);
        let full = [Bank::Real, Bank::Int, Bank::Ref]
            .into_iter()
            .find(|&bank| self.counts[bank as usize] > limits::FORK_REGISTERS_MAX);
        let Some(bank) = full else { return Ok(()) };
        let (max, letter) = (limits::FORK_REGISTERS_MAX, bank.letter());
        let expected = format!("at most {max} registers `{letter}` as {} of a fork's tasks", self.what);
        Err(Fault::new(Rule::ForkRegisters, expected, "more"))
    }
}

/// The registers that hold results of the tasks of a group so far.
struct Results {
    /// For each register the last group that had it as a result, counted from 1.
    groups: [Vec<u32>; 3],
    group: u32,
}

impl Results {
    fn new(body: &Body) -> Self {
        Results { groups: [body.reals as usize, body.ints as usize, body.refs.len()].map(|len| vec![0; len]), group: 0 }
    }

    /// Begins another group.
    fn begin(&mut self) {
        self.group += 1;
    }

    fn check_argument(&self, reg: Reg) -> Result<(), Fault> {
        if self.groups[reg.bank as usize][usize::from(reg.index)] != self.group {
            return Ok(());
        }
        let found = format!("{reg}, a result of a task before it");
        Err(Fault::new(Rule::TaskArguments, "arguments that are there before the fork", found))
    }

    fn add(&mut self, reg: Reg) -> Result<(), Fault> {
        let last = &mut self.groups[reg.bank as usize][usize::from(reg.index)];
        if std::mem::replace(last, self.group) != self.group {
            return Ok(());
        }
        let found = format!("{reg}, which has one of a task before it");
        Err(Fault::new(Rule::TaskResults, "a register of its own for each result of a fork's tasks", found))
    }
}
