//! Listening ports and their bounded queues.
//!
//! Implements the backlog. It limits the half-open connections, and separately the open connections that the
//! application has not accepted. A SYN or an ACK beyond a limit is dropped silently, as in Linux and BSD, and the peer
//! tries again. RFC 9293 specifies no limit.

use std::collections::BTreeMap;

#[derive(Clone, Copy, Debug)]
struct Listener {
    backlog: u32,
    half_open: u32,
    unannounced: u32,
    /// Open connections that were announced to the application, but that the application has not yet accepted.
    waiting: u32,
}

impl Listener {
    fn has_room(&self) -> bool {
        self.unannounced.saturating_add(self.waiting) < self.backlog
    }
}

#[derive(Debug, Default)]
pub(super) struct Listeners {
    by_port: BTreeMap<u16, Listener>,
}

impl Listeners {
    /// Starts listening on `port`. Returns false if the port is in use.
    pub(super) fn open(&mut self, port: u16, backlog: u32) -> bool {
        if self.by_port.contains_key(&port) {
            return false;
        }
        self.by_port.insert(port, Listener { backlog, half_open: 0, unannounced: 0, waiting: 0 });
        true
    }

    pub(super) fn close(&mut self, port: u16) {
        self.by_port.remove(&port);
    }

    pub(super) fn is_open(&self, port: u16) -> bool {
        self.by_port.contains_key(&port)
    }

    /// Returns whether the listener has room for another half-open connection. Returns false if the port has no
    /// listener.
    pub(super) fn can_accept_syn(&self, port: u16) -> bool {
        self.by_port.get(&port).is_some_and(|l| l.half_open < l.backlog && l.has_room())
    }

    /// Returns whether the listener has room for another open connection. Returns false if the port has no
    /// listener.
    pub(super) fn can_accept_open(&self, port: u16) -> bool {
        self.by_port.get(&port).is_some_and(Listener::has_room)
    }

    pub(super) fn set_waiting(&mut self, port: u16, count: u32) {
        if let Some(listener) = self.by_port.get_mut(&port) {
            listener.waiting = count;
        }
    }

    pub(super) fn on_half_open(&mut self, port: u16) {
        if let Some(listener) = self.by_port.get_mut(&port) {
            listener.half_open += 1;
        }
    }

    /// Records that a connection is no longer half-open: it has opened (`opened`), or it has ended.
    pub(super) fn on_not_half_open(&mut self, port: u16, opened: bool) {
        if let Some(listener) = self.by_port.get_mut(&port) {
            listener.half_open = listener.half_open.saturating_sub(1);
            listener.unannounced += u32::from(opened);
        }
    }

    /// Records that an open connection was announced to the application.
    pub(super) fn on_announced(&mut self, port: u16) {
        if let Some(listener) = self.by_port.get_mut(&port) {
            listener.unannounced = listener.unannounced.saturating_sub(1);
        }
    }
}
