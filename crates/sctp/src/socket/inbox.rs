//! The queue of messages and notifications that a socket reads, first in, first out.
//!
//! The messages themselves stay in the endpoint. The inbox lists the associations that may have messages, and messages
//! are read from each of these associations in turn. A notification is read after all messages of its association that
//! had arrived before the notification.
//!
//! Implements RFC 6458 §3.1.4 and §6 (the order of reading).

use super::Notification;
use crate::endpoint::Endpoint;
use crate::id::AssociationId;
use crate::recv::Upcoming;
use std::collections::{BTreeSet, VecDeque};

/// The maximum number of notifications that can wait in a socket. When the queue is full, its last notification reports
/// that further notifications are dropped.
pub(super) const MAX_WAITING: usize = 1024;

/// The largest number of `SendFailed` notifications that can wait. This is also the limit of the endpoint's event
/// queue.
const MAX_FAILED: usize = 1 << 16;

fn is_failed(notification: &Notification) -> bool {
    matches!(notification, Notification::SendFailed { .. })
}

/// The unread messages and notifications of a socket.
#[derive(Debug, Default)]
pub(super) struct Inbox {
    /// The waiting notifications, each with the number of messages of its association that are read before the
    /// notification.
    notifications: VecDeque<(Notification, u64)>,
    /// Associations that may have messages. The messages of the first association are read first.
    associations: VecDeque<AssociationId>,
    listed: BTreeSet<AssociationId>,
    /// The number of waiting `SendFailed` notifications.
    failed: usize,
    /// The number of notifications that were dropped because the queue was full.
    pub(super) overflowed: u64,
}

/// The kind of the next read.
#[derive(Clone, Copy, Debug)]
pub(super) enum NextRead {
    Notification,
    Data(AssociationId, Upcoming),
}

impl Inbox {
    /// Queues a notification. `arrived` is the number of messages that have arrived on its association so far. The
    /// application reads the notification after these messages. Returns false if the queue is full. One entry always
    /// stays free for [`notify_last`](Self::notify_last).
    pub(super) fn notify(&mut self, notification: Notification, arrived: u64) -> bool {
        let failed = is_failed(&notification);
        let others = self.notifications.len() - self.failed;
        let room = if failed { self.failed < MAX_FAILED } else { others < MAX_WAITING - 1 };
        if room {
            self.failed += usize::from(failed);
            self.notifications.push_back((notification, arrived));
        } else {
            self.overflowed += 1;
        }
        room
    }

    /// Queues the last notification, for which room is reserved.
    pub(super) fn notify_last(&mut self, notification: Notification, arrived: u64) {
        self.notifications.push_back((notification, arrived));
    }

    /// Queues a notification before all other notifications.
    pub(super) fn notify_first(&mut self, notification: Notification) {
        self.notifications.push_front((notification, 0));
    }

    /// Adds an association to the list of associations that may have messages.
    pub(super) fn add(&mut self, association: AssociationId) {
        if self.listed.insert(association) {
            self.associations.push_back(association);
        }
    }

    /// Returns the kind of the next read: a notification, or data of an association.
    pub(super) fn next(&self, endpoint: &Endpoint) -> Option<NextRead> {
        let of =
            |association: AssociationId| Some(NextRead::Data(association, endpoint.upcoming(association)?));
        if let Some((notification, arrived)) = self.notifications.front() {
            let association = notification.association();
            let behind =
                endpoint.messages_arrived_and_read(association).is_some_and(|(_, read)| read < *arrived);
            let before = if behind { of(association) } else { None };
            return Some(before.unwrap_or(NextRead::Notification));
        }
        self.associations.iter().find_map(|&association| of(association))
    }

    /// Returns the association of the next notification.
    pub(super) fn first_association(&self) -> Option<AssociationId> {
        self.notifications.front().map(|(notification, _)| notification.association())
    }

    /// Removes and returns the next notification.
    pub(super) fn take_notification(&mut self) -> Option<Notification> {
        let (notification, _) = self.notifications.pop_front()?;
        self.failed -= usize::from(is_failed(&notification));
        Some(notification)
    }

    /// Records that data of an association was read. If the read ended a message, the association moves to the end of
    /// the list of associations with messages. Otherwise it moves to the start of this list, so that the rest of its
    /// message is read next.
    pub(super) fn read(&mut self, association: AssociationId, end_of_message: bool) {
        if let Some(place) = self.associations.iter().position(|&other| other == association) {
            self.associations.remove(place);
        }
        match end_of_message {
            true => self.associations.push_back(association),
            false => self.associations.push_front(association),
        }
        self.listed.insert(association);
    }

    /// Removes associations without messages from the front of the list.
    pub(super) fn tidy(&mut self, endpoint: &Endpoint) {
        while let Some(&first) = self.associations.front()
            && endpoint.upcoming(first).is_none()
        {
            self.associations.pop_front();
            self.listed.remove(&first);
        }
    }

    /// Removes one association from the inbox. Returns a new inbox with this association and its notifications.
    pub(super) fn split(&mut self, association: AssociationId) -> Self {
        let (moved, kept) = self
            .notifications
            .drain(..)
            .partition(|(notification, _)| notification.association() == association);
        self.notifications = kept;
        let mut split = Self { notifications: moved, ..Self::default() };
        split.failed = split.notifications.iter().filter(|(notification, _)| is_failed(notification)).count();
        self.failed -= split.failed;
        if self.listed.remove(&association) {
            self.associations.retain(|&other| other != association);
            split.add(association);
        }
        split
    }
}
