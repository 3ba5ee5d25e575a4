//! Waits for several tasks together.

use anabranch_base::time::Duration;
use anabranch_world::World;
use std::future::{Future, poll_fn};
use std::task::Poll;

/// Waits for all tasks, but at most for `span`, and returns the results of the tasks. Tasks that have not ended by then
/// are cancelled, and their result is `None`.
pub(crate) async fn join<W: World, T: 'static>(
    world: &W,
    span: Option<Duration>,
    tasks: Vec<W::Task<T>>,
) -> Vec<Option<T>> {
    let mut tasks: Vec<_> = tasks.into_iter().map(Box::pin).collect();
    let mut results: Vec<Option<T>> = tasks.iter().map(|_| None).collect();
    let all = poll_fn(|cx| {
        for (task, result) in tasks.iter_mut().zip(&mut results).filter(|(_, result)| result.is_none()) {
            if let Poll::Ready(done) = task.as_mut().poll(cx) {
                *result = Some(done);
            }
        }
        if results.iter().all(Option::is_some) { Poll::Ready(()) } else { Poll::Pending }
    });
    let _ = world.timeout(span, all).await;
    results
}
