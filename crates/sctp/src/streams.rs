//! State of the streams that are in use.
//!
//! 65,535 negotiated streams must cost nothing until they carry something: a
//! two-level index leads from a stream to its slot, and slots exist only for
//! streams that have been touched.

/// Streams per page of the index.
const PAGE: usize = 64;

/// State of type `T` for each stream in use.
#[derive(Debug)]
pub(crate) struct Streams<T> {
    /// Slot number plus one, 0 for none.
    pages: Vec<Option<Box<[u32; PAGE]>>>,
    slots: Vec<T>,
}

impl<T> Default for Streams<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T> Streams<T> {
    pub(crate) fn new() -> Self {
        Self { pages: Vec::new(), slots: Vec::new() }
    }

    /// The slot of `stream`, if it is in use.
    #[inline]
    pub(crate) fn find(&self, stream: u16) -> Option<usize> {
        let page = self.pages.get(usize::from(stream) / PAGE)?.as_ref()?;
        (page[usize::from(stream) % PAGE] as usize).checked_sub(1)
    }

    /// The slot of `stream`, taken into use with `begin` if it was not.
    #[inline]
    pub(crate) fn slot(&mut self, stream: u16, begin: impl FnOnce() -> T) -> usize {
        match self.find(stream) {
            Some(slot) => slot,
            None => self.take(stream, begin()),
        }
    }

    #[cold]
    fn take(&mut self, stream: u16, state: T) -> usize {
        let page = usize::from(stream) / PAGE;
        if self.pages.len() <= page {
            self.pages.resize_with(page + 1, || None);
        }
        if self.slots.len() < 4 {
            // Most associations use few.
            self.slots.reserve_exact(1);
        }
        self.slots.push(state);
        let entry = self.pages[page].get_or_insert_with(|| Box::new([0; PAGE]));
        entry[usize::from(stream) % PAGE] = self.slots.len() as u32;
        self.slots.len() - 1
    }

    #[inline]
    pub(crate) fn at(&mut self, slot: usize) -> &mut T {
        &mut self.slots[slot]
    }

    #[inline]
    pub(crate) fn get(&self, stream: u16) -> Option<&T> {
        self.find(stream).map(|slot| &self.slots[slot])
    }

    /// The states by slot.
    #[inline]
    pub(crate) fn slots(&self) -> &[T] {
        &self.slots
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &T> {
        self.slots.iter()
    }

    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.slots.iter_mut()
    }

    /// The numbers of the streams in use, ascending.
    pub(crate) fn in_use(&self) -> Vec<u16> {
        let pages = self.pages.iter().enumerate().filter_map(|(at, page)| Some((at, page.as_deref()?)));
        pages
            .flat_map(|(at, page)| {
                let used = page.iter().enumerate().filter(|(_, slot)| **slot != 0);
                used.map(move |(within, _)| (at * PAGE + within) as u16)
            })
            .collect()
    }

    /// How many streams are in use.
    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.slots.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_used_streams_have_state() {
        let mut streams = Streams::new();
        for stream in [0, 65_534, 300, 0, 65_534] {
            let slot = streams.slot(stream, || 0_u32);
            *streams.at(slot) += u32::from(stream) + 1;
        }
        assert_eq!(streams.len(), 3);
        assert_eq!(streams.in_use(), [0, 300, 65_534]);
        assert_eq!(streams.get(0), Some(&2));
        assert_eq!(streams.get(65_534), Some(&131_070));
        assert_eq!(streams.get(301), None);
    }
}
