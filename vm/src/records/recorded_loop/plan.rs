//! From a loop to its site and its code.

use super::classes::Classes;
use super::code_writer::CodeWriter;
use super::flow::Flow;
use super::interface::Interface;
use super::saved::Saved;
use super::{LoopCode, LoopLayout, LoopSite, PushSite};
use crate::code::Position;
use crate::derivation::adjoint::adjoint;
use crate::derivation::piece::Piece;
use crate::preparation::loop_detection::Loop;
use crate::preparation::stretch::StretchCopy;
use crate::records::segment::OutputWord;

/// Everything about the recording of a loop but its number and its place in the stream.
#[derive(Debug)]
pub(crate) struct LoopPlan {
    pub(crate) site: LoopSite,
    /// `None` if nothing that is read after the loop depends on anything: it never writes a record.
    pub(crate) code: Option<LoopCode>,
    pub(crate) copies: Vec<StretchCopy>,
}

impl LoopPlan {
    /// Derives the adjoint of an iteration and finds the registers of what a record holds. Copies go to the registers
    /// from `free_reals` and `free_ints` on.
    pub(crate) fn new(mut source: Loop, free_reals: u16, free_ints: u16) -> Self {
        let flow = Flow::new(&source);
        let iteration = Piece {
            graph: std::mem::take(&mut source.iteration.graph),
            reals: source.iteration.real_inputs.len() as u32,
            ints: source.iteration.int_inputs.len() as u32,
            outputs: flow.active().collect(),
        };
        let derived = adjoint(&iteration);
        let (graph, primal_len) = (&derived.graph, iteration.graph.len());
        let mut interface = Interface::new(&source, &flow, &iteration, &derived);
        let outputs = interface.outputs(&source, &flow);
        let slots: Vec<u16> = outputs.iter().filter_map(|output| output.2).collect();
        let words = outputs.iter().map(|&(reg, word, _)| (reg, word)).collect();
        let push = source.push().map(|push| PushSite { builder: push.builder, mask: interface.push_mask });
        let pushes = interface.push_mask != 0;
        if slots.is_empty() && !pushes {
            return LoopPlan { site: inactive_site(source.while_true, words, push), code: None, copies: Vec::new() };
        }
        let classes = Classes::new(&source, graph, primal_len);
        let saved = Saved::new(&source, graph, primal_len, &interface, &classes);
        let registers = saved.registers(&source, graph, free_reals, free_ints);
        let code = CodeWriter::write(graph, &interface, &classes, &saved, slots);
        let inputs: Box<[u16]> = interface.inputs.iter().map(|input| input.reg).collect();
        let site = LoopSite {
            id: u32::MAX,
            layout: code.layout,
            inputs,
            arrays: interface.arrays.clone().into(),
            entry_reals: registers.entry_reals,
            entry_ints: registers.entry_ints,
            once_reals: registers.once_reals,
            once_ints: registers.once_ints,
            kept: registers.kept,
            outputs: words,
            slots: code.outputs.len() as u32,
            push,
            iteration_cost: (code.body.len() + code.elements.len() + code.moves.len() + usize::from(pushes)) as u32 + 1,
            once_cost: code.prologue.len() as u32 + 1,
            while_true: source.while_true,
            body: Position::default(),
            end: Position::default(),
            cost: 0,
            checks_fuel: true,
        };
        LoopPlan { site, code: Some(code), copies: registers.copies }
    }
}

/// The site of a loop that never writes a record.
fn inactive_site(while_true: bool, outputs: Box<[(u16, OutputWord)]>, push: Option<PushSite>) -> LoopSite {
    let none = || Box::<[u16]>::default();
    LoopSite {
        id: u32::MAX,
        inputs: none(),
        arrays: none(),
        entry_reals: none(),
        entry_ints: none(),
        once_reals: none(),
        once_ints: none(),
        kept: none(),
        layout: LoopLayout::default(),
        outputs,
        slots: 0,
        push,
        iteration_cost: 0,
        once_cost: 0,
        while_true,
        body: Position::default(),
        end: Position::default(),
        cost: 0,
        checks_fuel: true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::code::Inst;
    use crate::preparation::loop_detection::tests::{loops_of, rotated};

    fn plan(body: &str) -> LoopPlan {
        let mut loops = loops_of(&rotated(body));
        LoopPlan::new(loops.remove(0), 8, 8)
    }

    #[test]
    fn a_linear_iteration_saves_nothing_and_steps_its_counter_back() {
        let LoopPlan { site, code, copies } = plan("elem r2, p0, i1\n add r0, r0, r2");
        let code = code.expect("it depends on its inputs");
        assert_eq!(
            (site.layout.entry.bytes(), &*site.once_ints, &*site.inputs, &*site.arrays),
            (0, &[1][..], &[0][..], &[0][..])
        );
        assert!(copies.is_empty() && code.moves.is_empty());
        // The step is a constant; the sum's adjoint is each element's contribution.
        assert!(matches!(*code.prologue, [Inst::IConst { .. }]), "{:?}", code.prologue);
        assert!(matches!(*code.body, [Inst::ISub { .. }]), "{:?}", code.body);
        assert_eq!((code.elements[0].index, code.elements[0].contribution), (0, 0));
        assert_eq!(&*code.contributions, [0]);
    }

    #[test]
    fn elements_are_loaded_again_where_an_index_leads_through_the_array() {
        let LoopPlan { site, code, .. } =
            plan("elem r2, p0, i1\n isub i4, i0, i1\n elem r3, p0, i4\n fma r0, r2, r3, r0");
        let code = code.expect("it depends on its inputs");
        assert_eq!((code.entry_bytes(), &*site.kept, &*site.arrays), (0, &[0][..], &[0][..]));
        // The counter, what it is taken from, and the array's cell.
        assert_eq!((site.once_ints.len(), site.layout.once.ints), (2, 3));
        let count = |list: &[Inst], is: fn(&Inst) -> bool| list.iter().filter(|&inst| is(inst)).count();
        assert_eq!(count(&code.prologue, |inst| matches!(inst, Inst::KeptObject { .. })), 1);
        assert_eq!(count(&code.body, |inst| matches!(inst, Inst::KeptElem { .. })), 2);
    }

    #[test]
    fn an_index_that_is_read_one_after_the_other_is_loaded_again_and_what_it_leads_to_is_saved() {
        let LoopPlan { site, code, .. } = plan("ielem i4, p1, i1\n elem r2, p0, i4\n fma r0, r2, r2, r0");
        let code = code.expect("it depends on its inputs");
        assert_eq!((&*site.kept, code.layout.entry.reals, code.layout.entry.ints), (&[1][..], 1, 0));
        assert!(code.body.iter().any(|inst| matches!(inst, Inst::KeptIElem { .. })), "{:?}", code.body);
    }

    #[test]
    fn an_integer_at_an_unchanged_index_is_saved_once_and_may_be_a_step() {
        let LoopPlan { site, code, .. } =
            plan("ielem i4, p1, i0\n elem r2, p0, i5\n fma r0, r2, r2, r0\n iadd i5, i5, i4");
        let code = code.expect("it depends on its inputs");
        assert_eq!((&*site.kept, code.entry_bytes(), &*site.once_ints), (&[0][..], 0, &[5, 4][..]));
    }

    #[test]
    fn an_array_is_not_kept_for_elements_here_and_there() {
        let LoopPlan { site, code, .. } = plan("imul i4, i1, i1\n elem r2, p0, i4\n fma r0, r2, r2, r0");
        let code = code.expect("it depends on its inputs");
        assert_eq!((&*site.kept, code.layout.entry.reals), (&[][..], 1));
    }

    #[test]
    fn an_element_that_is_the_same_in_all_iterations_is_saved_once() {
        let LoopPlan { site, code, copies } = plan("elem r2, p0, i0\n mul r0, r2, r0\n mov r2, r1");
        let code = code.expect("it depends on its inputs");
        // The product before is saved of each iteration, and the element once, both from copies.
        assert_eq!((&*site.kept, &*site.entry_reals, &*site.once_reals), (&[][..], &[8][..], &[9][..]));
        assert_eq!((code.layout.entry.reals, copies.len()), (1, 2));
    }

    #[test]
    fn what_is_made_of_the_counter_is_saved_and_has_no_adjoint() {
        // A polynomial: r5 is a power of the counter.
        let LoopPlan { site, code, .. } =
            plan("elem r2, p0, i1\n to_real r4, i1\n fma r0, r2, r5, r0\n mul r5, r5, r4");
        let code = code.expect("it depends on its inputs");
        assert_eq!((&*site.inputs, &*site.arrays), (&[0][..], &[0][..]));
        assert_eq!((site.layout.entry.reals, site.layout.entry.ints), (1, 0));
        let products = code.body.iter().filter(|inst| matches!(inst, Inst::StrongMul { .. })).count();
        assert_eq!((products, code.frame.cleared, code.moves.len()), (1, 1, 0), "{:?}", code.body);
        assert!(matches!(*site.outputs, [(0, OutputWord::Slot { .. }), ..]), "{:?}", site.outputs);
    }

    #[test]
    fn what_does_not_change_is_computed_once() {
        let code = plan("div r0, r0, r1").code.expect("it depends on its inputs");
        // 1 / r1 in the prologue; the quotient is what the divisor's derivative reads.
        assert!(code.prologue.iter().any(|inst| matches!(inst, Inst::Div { .. })));
        assert_eq!((code.layout.entry.reals, code.layout.once.reals), (1, 1));
    }

    #[test]
    fn a_value_that_is_overwritten_is_copied_before() {
        let plan = plan("mul r0, r0, r0");
        assert_eq!((&*plan.site.entry_reals, plan.copies.len(), plan.copies[0].before), (&[8][..], 1, 0));
    }

    #[test]
    fn a_swap_moves_adjoints_by_way_of_other_registers() {
        let code = plan("mov r2, r0\n mov r0, r1\n mov r1, r2").code.expect("it depends on its inputs");
        assert_eq!((code.entry_bytes(), code.body.len(), code.moves.len()), (0, 0, 4));
    }

    #[test]
    fn a_loop_of_constants_has_no_code() {
        let plan = plan("to_real r0, i1");
        assert!(plan.code.is_none() && matches!(*plan.site.outputs, [(0, OutputWord::Zero)]));
    }
}
