//! The identifier by which the application refers to an association.
//!
//! Implements RFC 9260 §11.1.2 as far as it concerns the association id.

/// Identifies an association of one endpoint. The identifier is never reused after the association has ended.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct AssociationId {
    pub(crate) slot: u32,
    pub(crate) generation: u32,
}
