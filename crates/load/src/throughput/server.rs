//! The server: runs the test that each client requests.

use super::session::{End, Failed, Known};
use super::{Processor, Received, Sent, Settings};
use anabranch_base::time::Duration;
use anabranch_transport::{CloseReason, Listener, Session};
use anabranch_world::{Tasks, World};
use std::net::SocketAddr;
use std::rc::Rc;

/// An event at a server.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Event {
    /// A client has connected.
    Began(Option<SocketAddr>),
    /// A session has ended.
    Ended {
        /// The client's address.
        peer: Option<SocketAddr>,
        /// The data that the client sent.
        received: Received,
        /// The data that was sent to the client.
        sent: Sent,
        /// Why the test failed, if it did.
        failed: Option<String>,
    },
}

/// Serves every client that `listener` accepts, at most `most` at a time, until the listener fails. `settings` returns
/// the settings of a session's transport, for clients that ask for them.
///
/// # Errors
/// Why the listener failed.
pub async fn serve<W: World, L: Listener>(
    world: W,
    mut listener: L,
    timeout: Duration,
    most: usize,
    processor: Processor,
    settings: impl Fn(&L::Session) -> Settings + 'static,
    tell: Rc<dyn Fn(Event)>,
) -> Result<(), CloseReason> {
    let tasks = Tasks::new(world.clone());
    loop {
        let session = listener.accept().await?;
        if tasks.count() >= most {
            session.abort();
            continue;
        }
        let (world, tell, settings) = (world.clone(), tell.clone(), settings(&session));
        tasks.spawn("throughput session", async move {
            let peer = session.peer();
            tell(Event::Began(peer));
            let end = End::new(&world, &session, processor, Some(settings));
            let failed = end.answer(timeout).await.err().map(|failed| match failed {
                Failed::Closed(CloseReason::Finished) => {
                    "the client closed before the test was complete".to_owned()
                }
                failed => failed.to_string(),
            });
            let Known { received, sent, .. } = end.known();
            tell(Event::Ended { peer, received, sent, failed: failed.clone() });
            if failed.is_some() {
                session.abort();
            } else {
                // The client closes first, unless it is gone.
                let _ = world.timeout(timeout, end.peer_ended()).await;
                session.close();
            }
        });
    }
}
