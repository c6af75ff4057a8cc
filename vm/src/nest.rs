//! Trees of any depth, without recursion. What hosts build may nest deeper than any stack: it is compared, copied,
//! printed and dropped here, in loops that keep the way to the root in a list.
//!
//! Nothing here knows what the trees are: [`crate::value::Value`] and [`crate::module::HostType`].

use std::fmt::{self, Write};

/// A node of a tree, which owns its parts.
pub(crate) trait Nest: Sized {
    /// Parts that were taken out of a node.
    type Parts: Iterator<Item = Self>;

    /// The n-th part, if there are so many.
    fn part(&self, n: usize) -> Option<&Self>;

    /// Whether there are parts.
    fn has_parts(&self) -> bool;

    /// Whether a part has parts.
    fn nests(&self) -> bool;

    /// Takes the parts out.
    fn take_parts(&mut self) -> Self::Parts;

    /// Whether the nodes are equal but for their parts, and have as many.
    fn is_like(&self, other: &Self) -> bool;

    /// The same node with other parts: what `copy` makes of each, in order.
    fn with_parts(&self, copy: &mut dyn FnMut(&Self) -> Self) -> Self;
}

/// Levels that are copied by recursion, without more memory than the copy itself takes. Most trees have fewer.
const RECURSION_MAX: u32 = 24;

/// Drops the parts of a node that nests. What is left has no parts.
#[cold]
#[inline(never)]
pub(crate) fn drop_parts<T: Nest>(node: &mut T) {
    let mut open = vec![node.take_parts()];
    while let Some(parts) = open.last_mut() {
        match parts.next() {
            // What is dropped at the end of the arm has no parts, or only such that have none.
            Some(mut part) => {
                if part.nests() {
                    open.push(part.take_parts());
                }
            }
            None => drop(open.pop()),
        }
    }
}

/// A copy of a node and all that is below it.
pub(crate) fn clone<T: Nest>(node: &T) -> T {
    fn copy<T: Nest>(node: &T, levels: u32) -> T {
        if levels == 0 { clone_deep(node) } else { node.with_parts(&mut |part| copy(part, levels - 1)) }
    }
    copy(node, RECURSION_MAX)
}

/// [`clone`] without recursion.
#[cold]
fn clone_deep<T: Nest>(node: &T) -> T {
    let mut open = vec![(node, Vec::new())];
    loop {
        let (node, parts) = open.last_mut().expect("the root is open until it is returned");
        match node.part(parts.len()) {
            Some(part) => open.push((part, Vec::new())),
            None => {
                let mut parts = std::mem::take(parts).into_iter();
                let copy = node.with_parts(&mut |_| parts.next().expect("all parts have been copied"));
                open.pop();
                match open.last_mut() {
                    Some((_, parts)) => parts.push(copy),
                    None => return copy,
                }
            }
        }
    }
}

/// Whether two trees are equal.
pub(crate) fn equal<T: Nest>(a: &T, b: &T) -> bool {
    if !a.is_like(b) || !a.has_parts() {
        return a.is_like(b);
    }
    let mut open = vec![(a, b, 0)];
    while let Some((a, b, next)) = open.last_mut() {
        let (Some(x), Some(y)) = (a.part(*next), b.part(*next)) else {
            open.pop();
            continue;
        };
        *next += 1;
        if !x.is_like(y) {
            return false;
        }
        if x.has_parts() {
            open.push((x, y, 0));
        }
    }
    true
}

/// What is done on the way through a tree.
pub(crate) trait Visit<'t, T> {
    /// Why it ends early.
    type Stop;

    /// Before the parts of a node.
    fn enter(&mut self, node: &'t T) -> Result<(), Self::Stop>;

    /// Before the n-th part of a node.
    fn before(&mut self, _node: &'t T, _n: usize) -> Result<(), Self::Stop> {
        Ok(())
    }

    /// Behind the n-th part of a node.
    fn behind(&mut self, _node: &'t T, _n: usize) -> Result<(), Self::Stop> {
        Ok(())
    }

    /// Behind all parts of a node.
    fn leave(&mut self, _node: &'t T) -> Result<(), Self::Stop> {
        Ok(())
    }
}

/// Goes through a tree, parts in order.
pub(crate) fn walk<'t, T: Nest, V: Visit<'t, T>>(root: &'t T, visit: &mut V) -> Result<(), V::Stop> {
    visit.enter(root)?;
    let mut open = vec![(root, 0)];
    while let Some((node, next)) = open.last_mut() {
        let (node, n) = (*node, *next);
        if let Some(part) = node.part(n) {
            *next += 1;
            visit.before(node, n)?;
            visit.enter(part)?;
            open.push((part, 0));
        } else {
            visit.leave(node)?;
            open.pop();
            if let Some(&(outer, next)) = open.last() {
                visit.behind(outer, next - 1)?;
            }
        }
    }
    Ok(())
}

/// Writes what `#[derive(Debug)]` does, group by group: `Tuple([Real(1.0)])`, on one line or, with `{:#?}`, on many.
pub(crate) struct DebugWriter<'f, 'b> {
    f: &'f mut fmt::Formatter<'b>,
    /// Whether the open groups have items.
    open: Vec<bool>,
}

impl<'f, 'b> DebugWriter<'f, 'b> {
    pub(crate) fn new(f: &'f mut fmt::Formatter<'b>) -> Self {
        DebugWriter { f, open: Vec::new() }
    }

    /// Begins a group, as with `Tuple(`.
    pub(crate) fn open(&mut self, begin: impl fmt::Display) -> fmt::Result {
        self.open.push(false);
        write!(self.f, "{begin}")
    }

    /// Begins a group of fields, as with `Array {`.
    pub(crate) fn open_fields(&mut self, name: &str) -> fmt::Result {
        self.open(name)?;
        self.f.write_str(if self.f.alternate() { " {" } else { " { " })
    }

    /// Begins a field of the innermost group.
    pub(crate) fn field(&mut self, name: &str) -> fmt::Result {
        self.item()?;
        write!(self.f, "{name}: ")
    }

    /// Ends the innermost group of fields.
    pub(crate) fn close_fields(&mut self) -> fmt::Result {
        self.close(if self.f.alternate() { "}" } else { " }" })
    }

    /// Begins an item of the innermost group.
    pub(crate) fn item(&mut self) -> fmt::Result {
        let pretty = self.f.alternate();
        let depth = self.open.len();
        if let Some(has_items) = self.open.last_mut()
            && std::mem::replace(has_items, true)
        {
            self.f.write_str(if pretty { "," } else { ", " })?;
        }
        if pretty { self.line(depth) } else { Ok(()) }
    }

    /// An item that has no parts.
    pub(crate) fn leaf(&mut self, item: &dyn fmt::Debug) -> fmt::Result {
        if !self.f.alternate() {
            return item.fmt(self.f);
        }
        let depth = self.open.len();
        write!(Indented { f: self.f, depth }, "{item:#?}")
    }

    /// Ends the innermost group.
    pub(crate) fn close(&mut self, end: &str) -> fmt::Result {
        if self.open.pop() == Some(true) && self.f.alternate() {
            self.f.write_char(',')?;
            self.line(self.open.len())?;
        }
        self.f.write_str(end)
    }

    fn line(&mut self, depth: usize) -> fmt::Result {
        write!(self.f, "\n{:1$}", "", 4 * depth)
    }
}

/// Indents all lines but the first.
struct Indented<'f, 'b> {
    f: &'f mut fmt::Formatter<'b>,
    depth: usize,
}

impl Write for Indented<'_, '_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        for (n, line) in text.split('\n').enumerate() {
            if n > 0 {
                write!(self.f, "\n{:1$}", "", 4 * self.depth)?;
            }
            self.f.write_str(line)?;
        }
        Ok(())
    }
}
