//! A sorted map of sessions that remembers the result of the last lookup.
//!
//! Every packet and every read looks up its session. In most cases, the previous lookup was for the same session. The
//! map stores the index of the last result, so only lookups of other sessions have to search.

/// A sorted map of sessions that also stores the index at which the last lookup ended.
#[derive(Debug)]
pub(crate) struct Table<K, V> {
    /// The entries in the order of their keys. Values are boxed, so that an insertion moves few bytes.
    entries: Vec<(K, Box<V>)>,
    last: usize,
}

impl<K, V> Default for Table<K, V> {
    fn default() -> Self {
        Self { entries: Vec::new(), last: 0 }
    }
}

impl<K: Ord + Copy, V> Table<K, V> {
    fn index_of(&self, key: &K) -> Result<usize, usize> {
        self.entries.binary_search_by(|(known, _)| known.cmp(key))
    }

    pub(crate) fn get(&self, key: &K) -> Option<&V> {
        self.index_of(key).ok().map(|index| &*self.entries[index].1)
    }

    #[inline]
    pub(crate) fn get_mut(&mut self, key: &K) -> Option<&mut V> {
        if self.entries.get(self.last).is_none_or(|(known, _)| known != key) {
            self.last = self.search(key)?;
        }
        self.entries.get_mut(self.last).map(|(_, value)| &mut **value)
    }

    #[cold]
    fn search(&self, key: &K) -> Option<usize> {
        self.index_of(key).ok()
    }

    /// Inserts `value`, replacing an earlier value with the same key.
    pub(crate) fn insert(&mut self, key: K, value: V) {
        match self.index_of(&key) {
            Ok(index) => *self.entries[index].1 = value,
            Err(index) => self.entries.insert(index, (key, Box::new(value))),
        }
    }

    pub(crate) fn remove(&mut self, key: &K) {
        if let Ok(index) = self.index_of(key) {
            self.entries.remove(index);
        }
    }

    /// Returns an iterator over the entries in the order of their keys.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (K, &V)> {
        self.entries.iter().map(|(key, value)| (*key, &**value))
    }

    pub(crate) fn values_mut(&mut self) -> impl Iterator<Item = &mut V> {
        self.entries.iter_mut().map(|(_, value)| &mut **value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use anabranch_base::Rng;
    use std::collections::BTreeMap;

    #[test]
    fn agrees_with_a_sorted_map() {
        for seed in 0..50 {
            let (mut rng, mut table, mut model) = (Rng::new(seed), Table::default(), BTreeMap::new());
            for step in 0..300_u32 {
                let key = rng.below(20);
                match rng.below(4) {
                    0 => {
                        table.insert(key, step);
                        model.insert(key, step);
                    }
                    1 => {
                        table.remove(&key);
                        model.remove(&key);
                    }
                    _ => assert_eq!(table.get_mut(&key), model.get_mut(&key), "seed {seed} step {step}"),
                }
                assert_eq!(table.get(&key), model.get(&key));
                assert!(table.iter().eq(model.iter().map(|(key, value)| (*key, value))));
                assert!(table.values_mut().map(|value| *value).eq(model.values().copied()));
            }
        }
    }
}
