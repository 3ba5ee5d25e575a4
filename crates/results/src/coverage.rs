//! Counts the objects for which every part of the response time is known.

use super::Contestant;

impl Contestant {
    /// Returns two numbers of delivered objects over all runs: those for which every part of the response time is
    /// known, and all of them. Background traffic does not count.
    #[must_use]
    pub fn coverage(&self) -> (u64, u64) {
        let objects = self.runs.iter().flat_map(|run| &run.objects).filter(|object| !object.background);
        let delivered = objects.filter(|object| object.delivered_ns.is_some()).count();
        (self.part_sums().map_or(0, |sums| sums.objects), delivered as u64)
    }

    /// Returns a note if the parts of the response time are known for only some of the delivered objects, for example
    /// `sctp: where time went is known for 194 of 329 delivered objects`. `None` if they are known for all or none.
    #[must_use]
    pub fn shortfall(&self) -> Option<String> {
        let (known, all) = self.coverage();
        let partial = known > 0 && known < all;
        partial.then(|| {
            format!("{}: where time went is known for {known} of {all} delivered objects", self.label())
        })
    }
}
