//! Code that the server of bulk transfers and the server of messages share.

use anabranch_transport::{CloseReason, Listener, Stream};
use anabranch_world::{Tasks, World};
use std::future::Future;

/// Serves the sessions that `listener` accepts, each in a task of its own, until the listener fails.
pub(crate) async fn serve_each<W: World, L: Listener, F>(
    world: &W,
    mut listener: L,
    name: &'static str,
    serve: impl Fn(L::Session) -> F,
) -> Result<(), CloseReason>
where
    F: Future<Output = Result<(), CloseReason>> + 'static,
{
    let tasks = Tasks::new(world.clone());
    loop {
        let served = serve(listener.accept().await?);
        tasks.spawn(name, async move {
            // Ignore the error of one session, because its client is gone.
            let _ = served.await;
        });
    }
}

/// Reads a request of `N` bytes; `None` if the stream ends too early.
pub(crate) async fn read_request<S: Stream, const N: usize>(
    stream: &mut S,
) -> Result<Option<[u8; N]>, CloseReason> {
    let mut request = [0; N];
    let mut have = 0;
    while have < N {
        match stream.read(&mut request[have..]).await? {
            0 => return Ok(None),
            read => have += read,
        }
    }
    Ok(Some(request))
}
