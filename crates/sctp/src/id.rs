//! What the application calls an association by.
//!
//! Home of RFC 9260 §11.1.2 as far as the association id goes.

/// Names an association of one endpoint; never used again after it has ended.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct AssociationId {
    pub(crate) slot: u32,
    pub(crate) generation: u32,
}
