//! How many objects have a response time of which every part is known.

use super::{Contestant, Why};

impl Contestant {
    /// The number of delivered objects, over all runs, of which every part is known; and the number of delivered objects.
    #[must_use]
    pub fn coverage(&self) -> (u64, u64) {
        let objects = self.runs.iter().flat_map(|run| &run.objects).filter(|object| !object.background);
        objects.filter(|object| object.delivered_ns.is_some()).fold((0, 0), |(known, all), object| {
            (known + u64::from(object.why.as_ref().is_some_and(Why::is_whole)), all + 1)
        })
    }

    /// The note for means that cover only part of the delivered objects: `sctp: where time went is known for 194 of 329
    /// delivered objects`. `None` if the parts are known for all objects or for none.
    #[must_use]
    pub fn shortfall(&self) -> Option<String> {
        let (known, all) = self.coverage();
        let partial = known > 0 && known < all;
        partial.then(|| {
            format!("{}: where time went is known for {known} of {all} delivered objects", self.label())
        })
    }
}
