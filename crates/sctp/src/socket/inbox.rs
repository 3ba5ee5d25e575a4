//! What a socket has to read: messages and notifications, first in, first out.
//!
//! The messages themselves stay with the endpoint; here stand the associations that may have some. A notification comes
//! behind all messages of its association that had arrived when it was given. Associations take turns, message by message.
//!
//! Home of RFC 6458 §3.1.4 and §6 (what is read when).

use super::Notification;
use crate::endpoint::Endpoint;
use crate::id::AssociationId;
use crate::recv::Upcoming;
use std::collections::{BTreeSet, VecDeque};

/// Most notifications that wait in a socket; the last one says that there are no more.
pub(super) const MAX_WAITING: usize = 1024;

/// The same of messages that were not delivered: as many as an endpoint tells of at a time.
const MAX_FAILED: usize = 1 << 16;

fn is_failed(notification: &Notification) -> bool {
    matches!(notification, Notification::SendFailed { .. })
}

/// What there is to read.
#[derive(Debug, Default)]
pub(super) struct Inbox {
    /// Each behind so many messages of its association.
    notifications: VecDeque<(Notification, u64)>,
    /// Associations that may have messages, by whose turn it is.
    associations: VecDeque<AssociationId>,
    listed: BTreeSet<AssociationId>,
    /// Notifications of messages that were not delivered, among those that wait.
    failed: usize,
    /// Notifications that there was no room for.
    pub(super) overflowed: u64,
}

/// What is to be read next.
#[derive(Clone, Copy, Debug)]
pub(super) enum NextRead {
    Notification,
    Data(AssociationId, Upcoming),
}

impl Inbox {
    /// Puts a notification behind `arrived` messages of its association; false where there is no room, but for a last one.
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

    /// The last one, for which there is always room.
    pub(super) fn notify_last(&mut self, notification: Notification, arrived: u64) {
        self.notifications.push_back((notification, arrived));
    }

    /// The same before everything else.
    pub(super) fn notify_first(&mut self, notification: Notification) {
        self.notifications.push_front((notification, 0));
    }

    /// An association may have messages.
    pub(super) fn add(&mut self, association: AssociationId) {
        if self.listed.insert(association) {
            self.associations.push_back(association);
        }
    }

    /// What is to be read next.
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

    /// The association that the next notification is about.
    pub(super) fn first_association(&self) -> Option<AssociationId> {
        self.notifications.front().map(|(notification, _)| notification.association())
    }

    /// Takes the next notification out.
    pub(super) fn take_notification(&mut self) -> Option<Notification> {
        let (notification, _) = self.notifications.pop_front()?;
        self.failed -= usize::from(is_failed(&notification));
        Some(notification)
    }

    /// Something of an association has been read: to the end of a message, so that it is another's turn, or not.
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

    /// Associations that have nothing any more are listed no longer.
    pub(super) fn tidy(&mut self, endpoint: &Endpoint) {
        while let Some(&first) = self.associations.front()
            && endpoint.upcoming(first).is_none()
        {
            self.associations.pop_front();
            self.listed.remove(&first);
        }
    }

    /// Takes out what there is of an association.
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
