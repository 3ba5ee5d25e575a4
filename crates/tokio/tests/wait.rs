//! Helpers with which tests wait for a condition, not for a duration. Only this module of the tests sleeps.
#![allow(dead_code, reason = "each program takes what it needs")]

use std::time::Duration;
use tokio::time::{sleep, timeout};

/// The time limit of a wait. Only a test that hangs exceeds it.
pub const LONG: Duration = Duration::from_secs(60);

/// Waits until the condition `is` returns true.
pub async fn soon(mut is: impl FnMut() -> bool) {
    let wait = async {
        while !is() {
            pace(Duration::from_millis(5)).await;
        }
    };
    timeout(LONG, wait).await.expect("in time");
}

/// Waits until `value` returns the same result in a hundred consecutive checks.
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

/// Sleeps between two checks of a condition, or between two steps of a deliberately slow reader.
pub async fn pace(time: Duration) {
    sleep(time).await;
}
