//! Stores the counters of associations and paths. A server has many idle associations, so counters of rare events are
//! in a separate box that most associations never allocate.
//!
//! This module implements no RFC rule.

use crate::stats::{AssociationStats, PathStats};
use anabranch_base::Instant;

/// The counters of an association: frequent counters inline, rare counters in a box.
#[derive(Debug)]
pub(crate) struct AssociationCounters {
    pub(crate) packets_sent: u64,
    pub(crate) bytes_sent: u64,
    pub(crate) packets_received: u64,
    pub(crate) bytes_received: u64,
    pub(crate) data_sent: u64,
    pub(crate) data_bytes_sent: u64,
    pub(crate) data_received: u64,
    pub(crate) data_bytes_received: u64,
    pub(crate) sacks_sent: u64,
    pub(crate) sacks_received: u64,
    pub(crate) messages_sent: u64,
    pub(crate) established: Option<Instant>,
    opened: Instant,
    rare: Option<Box<AssociationStats>>,
}

impl AssociationCounters {
    /// Returns the counters of an association that started at `opened`.
    pub(crate) fn new(opened: Instant) -> Self {
        Self {
            packets_sent: 0,
            bytes_sent: 0,
            packets_received: 0,
            bytes_received: 0,
            data_sent: 0,
            data_bytes_sent: 0,
            data_received: 0,
            data_bytes_received: 0,
            sacks_sent: 0,
            sacks_received: 0,
            messages_sent: 0,
            established: None,
            opened,
            rare: None,
        }
    }

    /// Returns the box that holds the counters of rare events, allocating it if necessary.
    #[cold]
    pub(crate) fn rare_mut(&mut self) -> &mut AssociationStats {
        self.rare.get_or_insert_default()
    }

    /// Returns all counters. The receive half counts the messages and supplies `messages_received`.
    pub(crate) fn stats(&self, messages_received: u64) -> AssociationStats {
        AssociationStats {
            packets_sent: self.packets_sent,
            bytes_sent: self.bytes_sent,
            packets_received: self.packets_received,
            bytes_received: self.bytes_received,
            data_sent: self.data_sent,
            data_bytes_sent: self.data_bytes_sent,
            data_received: self.data_received,
            data_bytes_received: self.data_bytes_received,
            sacks_sent: self.sacks_sent,
            sacks_received: self.sacks_received,
            messages_sent: self.messages_sent,
            messages_received,
            opened: self.opened,
            established: self.established,
            ..self.rare.as_deref().copied().unwrap_or_default()
        }
    }
}

/// The counters of a path: frequent counters inline, rare counters in a box.
#[derive(Clone, Debug, Default)]
pub(crate) struct PathCounters {
    pub(crate) packets_sent: u64,
    pub(crate) bytes_sent: u64,
    pub(crate) packets_received: u64,
    pub(crate) bytes_received: u64,
    // HEARTBEATs are rare, so 32 bits are enough. A server has many idle paths, so small counters save memory.
    pub(crate) heartbeats_sent: u32,
    pub(crate) heartbeats_acked: u32,
    pub(crate) bytes_acked: u64,
    rare: Option<Box<PathStats>>,
}

impl PathCounters {
    /// Returns the box that holds the counters of rare events, allocating it if necessary.
    #[cold]
    pub(crate) fn rare_mut(&mut self) -> &mut PathStats {
        self.rare.get_or_insert_default()
    }

    /// Returns all counters.
    pub(crate) fn stats(&self) -> PathStats {
        PathStats {
            packets_sent: self.packets_sent,
            bytes_sent: self.bytes_sent,
            packets_received: self.packets_received,
            bytes_received: self.bytes_received,
            heartbeats_sent: self.heartbeats_sent.into(),
            heartbeats_acked: self.heartbeats_acked.into(),
            bytes_acked: self.bytes_acked,
            ..self.rare.as_deref().copied().unwrap_or_default()
        }
    }
}
