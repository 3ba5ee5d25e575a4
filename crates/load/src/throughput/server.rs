//! The server of a throughput test. It runs the test that each client requests.

use super::paths::{Reports, ServerReports};
use super::session::{Known, MeasuredSession, SessionFailure};
use super::{CpuClock, Received, SenderReport};
use anabranch_base::time::Duration;
use anabranch_transport::{CloseReason, Listener, Session};
use anabranch_world::{Tasks, World};
use std::net::SocketAddr;
use std::rc::Rc;

/// An event that the server reports to the program that runs it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Event {
    /// A client at this address has connected.
    Began(Option<SocketAddr>),
    /// The session of a client has ended.
    Ended {
        /// The client's address.
        peer: Option<SocketAddr>,
        /// The counters of the data that the client sent.
        received: Received,
        /// The counters of the data that was sent to the client.
        sent: SenderReport,
        /// The reason why the test failed; `None` if it succeeded.
        failed: Option<String>,
    },
}

/// Serves all clients that `listener` accepts, at most `most` at a time, until the listener fails. `tell` is called for
/// each event. If a client requests settings or paths, `reports` provides them.
///
/// # Errors
/// The reason why the listener failed.
pub async fn serve<W: World, L: Listener>(
    world: W,
    mut listener: L,
    timeout: Duration,
    most: usize,
    cpu_clock: CpuClock,
    reports: impl ServerReports<L::Session> + 'static,
    tell: Rc<dyn Fn(Event)>,
) -> Result<(), CloseReason> {
    let tasks = Tasks::new(world.clone());
    let reports: Reports<L::Session> = Rc::new(reports);
    loop {
        let session = listener.accept().await?;
        if tasks.count() >= most {
            session.abort();
            continue;
        }
        let (world, tell, reports) = (world.clone(), tell.clone(), reports.clone());
        tasks.spawn("throughput session", async move {
            let peer = session.peer();
            tell(Event::Began(peer));
            let end = MeasuredSession::new(&world, &session, cpu_clock, Some(reports));
            // A client that ends its test on time may leave data in its send buffer.
            let is_late =
                |failed: &SessionFailure| matches!(failed, SessionFailure::Closed(_)) && end.is_time_over();
            let failed = end.answer(timeout).await.err().filter(|failed| !is_late(failed));
            let failed = failed.map(|failed| match failed {
                SessionFailure::Closed(CloseReason::Finished) => {
                    "the client closed before the test was complete".to_owned()
                }
                failed => failed.to_string(),
            });
            let Known { received, sent, .. } = end.known();
            tell(Event::Ended { peer, received, sent, failed: failed.clone() });
            if failed.is_some() {
                session.abort();
            } else {
                // Give the client up to `timeout` to close the session first, and then close it here.
                let _ = world.timeout(timeout, end.peer_ended()).await;
                session.close();
            }
        });
    }
}
