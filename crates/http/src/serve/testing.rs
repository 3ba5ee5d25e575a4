//! Helpers shared by tests of the server: a stream without a network, and the state of a server.

use super::{Activity, Date, IdleBuffers, Options, Service};
use crate::http2::io::Scratch;
use crate::limits::SessionMemory;
use crate::observe::Recorder;
use anabranch_base::Budget;
use anabranch_sim::{Network, SimWorld};
use anabranch_transport::{CloseReason, Stream};
use std::cell::Cell;
use std::rc::Rc;
use std::task::{Context, Poll};

/// A stream that accepts all data. It yields no data, and ends when `ended` is set.
#[derive(Clone, Default)]
pub(super) struct FakeStream {
    pub(super) written: u64,
    pub(super) ended: Rc<Cell<bool>>,
}

impl Stream for FakeStream {
    fn number(&self) -> u64 {
        0
    }

    fn bytes_read(&self) -> u64 {
        0
    }

    fn bytes_written(&self) -> u64 {
        self.written
    }

    fn poll_read(&mut self, _cx: &mut Context<'_>, _into: &mut [u8]) -> Poll<Result<usize, CloseReason>> {
        if self.ended.get() { Poll::Ready(Ok(0)) } else { Poll::Pending }
    }

    fn poll_write(&mut self, _cx: &mut Context<'_>, from: &[u8]) -> Poll<Result<usize, CloseReason>> {
        self.written += from.len() as u64;
        Poll::Ready(Ok(from.len()))
    }

    fn finish(&mut self) {}
}

/// Returns a simulated network and the `SimWorld` of a host in it.
pub(super) fn world() -> (Network, SimWorld) {
    let network = Network::new(1);
    let host = network.host("server", &[[10, 0, 0, 1].into()]);
    let world = network.world(host);
    (network, world)
}

/// The shared state of a server without a site.
pub(super) fn service(world: &SimWorld) -> Rc<Service<SimWorld, ()>> {
    Rc::new(Service {
        world: world.clone(),
        site: Rc::new(()),
        options: Options::default(),
        recorder: Recorder::default(),
        buffers: IdleBuffers::new(None),
        date: Date::new(None),
        scratch: Scratch::default(),
    })
}

/// Returns the state of a session whose memory is accounted to `budget`.
pub(super) fn activity(budget: &Budget) -> Rc<Activity> {
    Rc::new(Activity { memory: SessionMemory::new(Some(budget)), ..Activity::default() })
}
