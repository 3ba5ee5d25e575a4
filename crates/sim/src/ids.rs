//! Identifiers of nodes, interfaces and links.

use anabranch_link::spec::Direction;

/// Identifies a host or a router.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Hash)]
pub struct NodeId(pub(crate) u32);

impl NodeId {
    /// Returns the node's interface with this number, counted from 0.
    #[must_use]
    pub const fn interface(self, index: u32) -> InterfaceId {
        InterfaceId { node: self, index }
    }
}

/// An interface of a node.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Hash)]
pub struct InterfaceId {
    /// The node to which the interface belongs.
    pub node: NodeId,
    /// The number of the interface at its node, counted from 0.
    pub index: u32,
}

/// What one end of a new link is attached to: an interface, or a node whose first free interface is used. A router
/// without a free interface gets a new one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Attachment {
    /// This interface.
    Interface(InterfaceId),
    /// The first interface of this node that has no link.
    Node(NodeId),
}

impl From<NodeId> for Attachment {
    fn from(node: NodeId) -> Self {
        Self::Node(node)
    }
}

impl From<InterfaceId> for Attachment {
    fn from(interface: InterfaceId) -> Self {
        Self::Interface(interface)
    }
}

/// A link between two interfaces. The direction "up" leads from the first interface to the second.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Hash)]
pub struct LinkId(pub(crate) u32);

impl LinkId {
    /// Returns the number of the link in the order of creation, counted from 0.
    #[must_use]
    pub const fn number(self) -> u32 {
        self.0
    }

    pub(crate) const fn direction(self, direction: Direction) -> usize {
        self.0 as usize * 2 + matches!(direction, Direction::Down) as usize
    }
}
