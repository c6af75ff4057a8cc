//! Tasks.

use super::Lowerer;
use super::assign::Target;
use super::registers::Held;
use crate::arena::Id;
use crate::core::{ExprId, Task};
use crate::hash::HashMap;
use dualvm_vm::isa::{Bank, Op, Operand, Reg};

/// The tasks of a fork have at most this many arguments in a bank together.
const ARGUMENTS_MAX: usize = 16_384;

impl Lowerer<'_, '_> {
    /// Lowers a fork whose results go to `targets`. What a task has as its result must not be an argument of a later
    /// one: then the result waits in another register.
    pub(super) fn fork(&mut self, expr: ExprId, tasks: &[Task], targets: &[Target]) {
        let mut held: Vec<Held> = Vec::new();
        let mut args: Vec<Vec<Reg>> = Vec::with_capacity(tasks.len());
        for task in tasks {
            let first = held.len();
            held.extend(task.args.iter().flat_map(|&arg| self.values(arg)));
            args.push(held[first..].iter().map(|&value| self.registers.reg(value)).collect());
        }
        for bank in [Bank::Real, Bank::Int, Bank::Ref] {
            let count = args.iter().flatten().filter(|arg| arg.bank == bank).count();
            if count > ARGUMENTS_MAX {
                self.refusal = Some(format!("more than {ARGUMENTS_MAX} arguments of tasks that begin together"));
            }
        }
        let mut last_read: HashMap<Reg, usize> = HashMap::default();
        for (at, args) in args.iter().enumerate() {
            last_read.extend(args.iter().map(|&arg| (arg, at)));
        }
        let mut results: Vec<Vec<Reg>> = Vec::with_capacity(tasks.len());
        let mut waiting: Vec<(Reg, Target)> = Vec::new();
        let mut rest = targets;
        for (at, task) in tasks.iter().enumerate() {
            let (own, others) = rest.split_at(self.lists.get(task.results).len());
            rest = others;
            results.push(Vec::with_capacity(own.len()));
            for &target in own {
                let is_read_later = last_read.get(&target.reg).is_some_and(|&last| last > at);
                let reg = if is_read_later { self.fresh_target(target.ty).reg } else { target.reg };
                if is_read_later {
                    waiting.push((reg, target));
                }
                results[at].push(reg);
            }
        }
        held.into_iter().for_each(|value| self.registers.release(value));
        self.emit(expr, Op::Fork, &[Operand::Int(tasks.len() as i64)]);
        for ((task, args), results) in tasks.iter().zip(args).zip(results) {
            if self.flow.reachable {
                self.set_source(task.origin);
                let func = Operand::Func(task.function.index() as u32);
                self.out.emit(Op::Task, &[func, Operand::Uses(args), Operand::Defs(results)]);
            }
        }
        for (reg, target) in waiting {
            self.emit_mov(expr, target.reg, reg);
            self.registers.free(reg, target.ty);
        }
    }
}
