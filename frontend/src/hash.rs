//! The compiler's hash tables. Their keys are small and there are many of them, so the time to hash one matters: this
//! is a fast hash. Its seed is random, so that a program whose keys collide is hard to write.

use foldhash::fast::RandomState;

/// A hash table.
pub(crate) type HashMap<K, V> = std::collections::HashMap<K, V, RandomState>;

/// A set.
pub(crate) type HashSet<T> = std::collections::HashSet<T, RandomState>;
