//! Sets of registers, which every statement asks and changes.

use dualvm_vm::isa::Reg;

/// A set of registers: for each bank a bit per register.
#[derive(Clone, Default)]
pub(super) struct RegSet {
    banks: [Vec<u64>; 3],
}

impl RegSet {
    fn place(reg: Reg) -> (usize, usize, u64) {
        (reg.bank as usize, usize::from(reg.index) / 64, 1 << (reg.index % 64))
    }

    pub(super) fn contains(&self, reg: Reg) -> bool {
        let (bank, word, bit) = Self::place(reg);
        self.banks[bank].get(word).is_some_and(|bits| bits & bit != 0)
    }

    /// Says whether the register is new.
    pub(super) fn insert(&mut self, reg: Reg) -> bool {
        let (bank, word, bit) = Self::place(reg);
        let bits = &mut self.banks[bank];
        if bits.len() <= word {
            bits.resize(word + 1, 0);
        }
        let new = bits[word] & bit == 0;
        bits[word] |= bit;
        new
    }

    pub(super) fn remove(&mut self, reg: Reg) {
        let (bank, word, bit) = Self::place(reg);
        if let Some(bits) = self.banks[bank].get_mut(word) {
            *bits &= !bit;
        }
    }

    /// Keeps only what the other set has, too.
    pub(super) fn intersect(&mut self, other: &RegSet) {
        for (bits, other) in self.banks.iter_mut().zip(&other.banks) {
            bits.truncate(other.len());
            bits.iter_mut().zip(other).for_each(|(bits, other)| *bits &= other);
        }
    }
}

impl Extend<Reg> for RegSet {
    fn extend<I: IntoIterator<Item = Reg>>(&mut self, regs: I) {
        regs.into_iter().for_each(|reg| _ = self.insert(reg));
    }
}
