//! Short lists: of what an expression is made of there are three or fewer almost always, and these take no memory of
//! their own.

use std::fmt;
use std::ops::{Deref, DerefMut};

/// A list of a length that doesn't change. One of numbers of 32 bits takes 16 bytes.
#[derive(Clone, Default)]
pub(crate) enum List<T> {
    #[default]
    Empty,
    One([T; 1]),
    Two([T; 2]),
    Three([T; 3]),
    Long(Box<Long<T>>),
}

/// Four or more.
#[derive(Clone)]
pub(crate) struct Long<T>(Box<[T]>);

impl<T> Deref for List<T> {
    type Target = [T];

    #[inline]
    fn deref(&self) -> &[T] {
        match self {
            List::Empty => &[],
            List::One(list) => list,
            List::Two(list) => list,
            List::Three(list) => list,
            List::Long(list) => &list.0,
        }
    }
}

impl<T> DerefMut for List<T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut [T] {
        match self {
            List::Empty => &mut [],
            List::One(list) => list,
            List::Two(list) => list,
            List::Three(list) => list,
            List::Long(list) => &mut list.0,
        }
    }
}

impl<T: fmt::Debug> fmt::Debug for List<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

impl<T> FromIterator<T> for List<T> {
    fn from_iter<I: IntoIterator<Item = T>>(iter: I) -> Self {
        let mut iter = iter.into_iter();
        let Some(first) = iter.next() else { return List::Empty };
        let Some(second) = iter.next() else { return List::One([first]) };
        let Some(third) = iter.next() else { return List::Two([first, second]) };
        let Some(fourth) = iter.next() else { return List::Three([first, second, third]) };
        let mut list = Vec::with_capacity(4 + iter.size_hint().0);
        list.extend([first, second, third, fourth]);
        list.extend(iter);
        List::Long(Box::new(Long(list.into())))
    }
}

impl<T> From<Vec<T>> for List<T> {
    fn from(list: Vec<T>) -> Self {
        if list.len() > 3 { List::Long(Box::new(Long(list.into()))) } else { list.into_iter().collect() }
    }
}

impl<T: Copy> From<&[T]> for List<T> {
    fn from(list: &[T]) -> Self {
        list.iter().copied().collect()
    }
}

impl<T, const N: usize> From<[T; N]> for List<T> {
    fn from(list: [T; N]) -> Self {
        list.into_iter().collect()
    }
}

impl<T: Copy> IntoIterator for List<T> {
    type Item = T;
    type IntoIter = IntoIter<T>;

    fn into_iter(self) -> IntoIter<T> {
        IntoIter { list: self, next: 0 }
    }
}

/// What a list holds, one after the other.
pub(crate) struct IntoIter<T> {
    list: List<T>,
    next: usize,
}

impl<T: Copy> Iterator for IntoIter<T> {
    type Item = T;

    fn next(&mut self) -> Option<T> {
        let item = self.list.get(self.next).copied()?;
        self.next += 1;
        Some(item)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let left = self.list.len() - self.next;
        (left, Some(left))
    }
}

impl<T: Copy> ExactSizeIterator for IntoIter<T> {}

impl<'l, T> IntoIterator for &'l List<T> {
    type Item = &'l T;
    type IntoIter = std::slice::Iter<'l, T>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

impl<'l, T> IntoIterator for &'l mut List<T> {
    type Item = &'l mut T;
    type IntoIter = std::slice::IterMut<'l, T>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter_mut()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_holds_what_it_was_made_of() {
        assert_eq!(size_of::<List<u32>>(), 16);
        for len in 0..10 {
            let numbers: Vec<u32> = (0..len).collect();
            let mut lists: [List<u32>; 3] =
                [numbers.iter().copied().collect(), numbers.clone().into(), List::from(&numbers[..])];
            for list in &mut lists {
                assert_eq!(**list, numbers[..]);
                list.iter_mut().for_each(|number| *number += 1);
                assert_eq!(list.iter().sum::<u32>(), (1..=len).sum::<u32>());
            }
        }
    }
}
