//! Waiting in tests: for a condition, not for a time. Only here do the tests of this crate sleep.
#![allow(dead_code, reason = "each program takes what it needs")]

use std::time::Duration;
use tokio::time::{sleep, timeout};

/// Generous: only a hang exceeds it.
pub const LONG: Duration = Duration::from_secs(60);

/// Until it is so.
pub async fn soon(mut is: impl FnMut() -> bool) {
    let wait = async {
        while !is() {
            pace(Duration::from_millis(5)).await;
        }
    };
    timeout(LONG, wait).await.expect("in time");
}

/// Until `value` no longer changes: the same in a hundred looks.
pub async fn steady<T: PartialEq>(mut value: impl FnMut() -> T) {
    let (mut last, mut same) = (value(), 0);
    soon(|| {
        let now = value();
        same = if now == last { same + 1 } else { 0 };
        last = now;
        same == 100
    })
    .await;
}

/// Between two looks at a condition, and between two steps of a reader that is slow on purpose.
pub async fn pace(time: Duration) {
    sleep(time).await;
}
