//! Stores the state of the streams that are in use.
//!
//! Negotiating 65,535 streams must cost no memory until the streams are used for data. A two-level index maps a stream
//! to its slot. Slots exist only for streams that have been used.

/// Returns the byte position at which a stream continues after a reset (RFC 6525): the next multiple of 2^32. So sender
/// and receiver agree on the position, even if data was cancelled and never arrived. Traces contain these positions. A
/// program that compares its own positions with a trace must use this function as well.
///
/// ```
/// use anabranch_sctp::position_after_reset;
///
/// assert_eq!(position_after_reset(1_000), 1 << 32);
/// assert_eq!(position_after_reset(position_after_reset(1_000)), 2 << 32);
/// ```
#[must_use]
pub const fn position_after_reset(position: u64) -> u64 {
    ((position >> 32) + 1) << 32
}

/// Number of streams in one page of the index.
const PAGE: usize = 64;

/// Number of streams whose index entry is stored inline.
const NEAR: usize = 4;

/// The number of slots in one allocation.
const FIRST: usize = 64;

/// The state of type `T` of each stream in use.
#[derive(Debug)]
pub(crate) struct Streams<T> {
    /// For each of the first [`NEAR`] streams, the number of its slot plus one, or 0 if the stream has no slot. Most
    /// associations use only these streams.
    near: [u16; NEAR],
    /// The number of slots in use.
    count: u32,
    /// The first [`FIRST`] slots, which suffice for most associations.
    first: Vec<T>,
    /// Index entries and slots that do not fit into `near` and `first`. `None` until they are needed.
    far: Option<Box<ColdStreams<T>>>,
}

/// Index entries and slots that most associations never use.
#[derive(Debug)]
struct ColdStreams<T> {
    /// The index entries of the streams from number [`NEAR`] on, [`PAGE`] streams to a page. The encoding is that of
    /// `near`.
    pages: Vec<Option<Box<[u16; PAGE]>>>,
    /// Slots beyond the first [`FIRST`], in allocations of [`FIRST`] slots each. A new slot never moves the existing
    /// slots.
    more: Vec<Vec<T>>,
}

impl<T> Default for ColdStreams<T> {
    fn default() -> Self {
        Self { pages: Vec::new(), more: Vec::new() }
    }
}

impl<T> Default for Streams<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T> Streams<T> {
    pub(crate) fn new() -> Self {
        Self { near: [0; NEAR], count: 0, first: Vec::new(), far: None }
    }

    /// Returns the slot of `stream`, if the stream is in use.
    #[inline]
    pub(crate) fn find(&self, stream: u16) -> Option<usize> {
        let entry = match self.near.get(usize::from(stream)) {
            Some(&entry) => entry,
            None => self.far_entry(stream)?,
        };
        usize::from(entry).checked_sub(1)
    }

    fn far_entry(&self, stream: u16) -> Option<u16> {
        let page = self.far.as_ref()?.pages.get(usize::from(stream) / PAGE)?.as_ref()?;
        Some(page[usize::from(stream) % PAGE])
    }

    /// Returns the slot of `stream`. A stream that was not in use gets a slot with the state that `begin` returns.
    #[inline]
    pub(crate) fn slot(&mut self, stream: u16, begin: impl FnOnce() -> T) -> usize {
        match self.find(stream) {
            Some(slot) => slot,
            None => self.take(stream, begin()),
        }
    }

    #[cold]
    fn take(&mut self, stream: u16, state: T) -> usize {
        let slot = self.count();
        self.count += 1;
        if slot < FIRST {
            if slot < 4 {
                // Most associations use only a few streams, so memory is reserved for one stream at a time.
                self.first.reserve_exact(1);
            }
            self.first.push(state);
        } else {
            let more = &mut self.far.get_or_insert_default().more;
            match more.last_mut() {
                Some(piece) if piece.len() < FIRST => piece.push(state),
                _ => {
                    let mut piece = Vec::with_capacity(FIRST);
                    piece.push(state);
                    more.push(piece);
                }
            }
        }
        match self.near.get_mut(usize::from(stream)) {
            Some(near) => *near = slot as u16 + 1,
            None => self.page(stream)[usize::from(stream) % PAGE] = slot as u16 + 1,
        }
        slot
    }

    /// Returns the page of [`PAGE`] index entries that contains the entry of `stream`. Allocates the page if necessary.
    fn page(&mut self, stream: u16) -> &mut [u16; PAGE] {
        let page = usize::from(stream) / PAGE;
        let pages = &mut self.far.get_or_insert_default().pages;
        if pages.len() <= page {
            if page >= 16 {
                // One packet may name dozens of streams, so room for all stream numbers is reserved in one step.
                pages.reserve_exact(usize::from(u16::MAX) / PAGE + 1 - pages.len());
            }
            pages.resize_with(page + 1, || None);
        }
        pages[page].get_or_insert_with(|| Box::new([0; PAGE]))
    }

    /// Returns the number of streams in use.
    #[inline]
    pub(crate) fn count(&self) -> usize {
        self.count as usize
    }

    #[inline]
    pub(crate) fn at(&mut self, slot: usize) -> &mut T {
        match self.first.get_mut(slot) {
            Some(state) => state,
            None => Self::beyond_mut(pieces_mut(&mut self.far), slot),
        }
    }

    #[cold]
    fn beyond_mut(more: &mut [Vec<T>], slot: usize) -> &mut T {
        &mut more[slot / FIRST - 1][slot % FIRST]
    }

    #[cold]
    fn beyond(&self, slot: usize) -> &T {
        &pieces(&self.far)[slot / FIRST - 1][slot % FIRST]
    }

    /// Returns the state of the stream in a slot.
    #[inline]
    pub(crate) fn of(&self, slot: usize) -> &T {
        match self.first.get(slot) {
            Some(state) => state,
            None => self.beyond(slot),
        }
    }

    #[inline]
    pub(crate) fn get(&self, stream: u16) -> Option<&T> {
        self.find(stream).map(|slot| self.of(slot))
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &T> {
        self.first.iter().chain(pieces(&self.far).iter().flatten())
    }

    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.first.iter_mut().chain(pieces_mut(&mut self.far).iter_mut().flatten())
    }

    /// Returns the numbers of the streams in use, ascending.
    pub(crate) fn in_use(&self) -> Vec<u16> {
        let pages = self.far.as_deref().map_or(&[][..], |far| &far.pages);
        let pages =
            pages.iter().enumerate().filter_map(|(at, page)| Some((at * PAGE, &page.as_deref()?[..])));
        std::iter::once((0, &self.near[..]))
            .chain(pages)
            .flat_map(|(first, entries)| {
                let used = entries.iter().enumerate().filter(|(_, slot)| **slot != 0);
                used.map(move |(within, _)| (first + within) as u16)
            })
            .collect()
    }
}

#[inline]
fn pieces<T>(far: &Option<Box<ColdStreams<T>>>) -> &[Vec<T>] {
    far.as_deref().map_or(&[], |far| &far.more)
}

#[inline]
fn pieces_mut<T>(far: &mut Option<Box<ColdStreams<T>>>) -> &mut [Vec<T>] {
    far.as_deref_mut().map_or(&mut [], |far| &mut far.more)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_used_streams_have_state() {
        let mut streams = Streams::new();
        for stream in [0, 65_534, 300, 0, 65_534, 4, 3] {
            let slot = streams.slot(stream, || 0_u32);
            *streams.at(slot) += u32::from(stream) + 1;
        }
        assert_eq!(streams.count(), 5);
        assert_eq!(streams.in_use(), [0, 3, 4, 300, 65_534]);
        assert_eq!(streams.get(0), Some(&2));
        assert_eq!(streams.get(65_534), Some(&131_070));
        assert_eq!(streams.get(301), None);
    }

    #[test]
    fn many_are_kept_in_pieces() {
        let mut streams = Streams::new();
        for stream in (0..u16::MAX).rev() {
            let slot = streams.slot(stream, || stream);
            assert_eq!(slot, usize::from(u16::MAX - 1 - stream));
        }
        assert_eq!(streams.count(), 65_535);
        assert!((0..u16::MAX).all(|stream| streams.get(stream) == Some(&stream)));
        assert!(streams.iter().copied().eq((0..u16::MAX).rev()));
        assert_eq!(streams.in_use().len(), 65_535);
    }
}
