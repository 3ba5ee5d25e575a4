//! The counters and measurements of a load, in bounded memory.

use super::cause::Cause;
use anabranch_base::time::Duration;
use anabranch_base::{Histogram, Instant};

/// The counts and measurements of a load.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Tally {
    /// The time at which the load began.
    pub started_at: Instant,
    /// The time of the last event of the load.
    pub last: Instant,
    /// The number of sessions that were begun.
    pub sessions: u64,
    /// The number of sessions that were established.
    pub established: u64,
    /// The number of established sessions that use HTTP/2.
    pub http2: u64,
    /// The number of established sessions that use HTTP/3.
    pub http3: u64,
    /// The number of sessions whose first requests were sent with the handshake.
    pub early: u64,
    /// The number of sessions that are open now.
    pub concurrent: u64,
    /// The highest number of sessions that were open at once.
    pub max_concurrent: u64,
    /// The number of ended sessions with at least one reply.
    pub sessions_with_replies: u64,
    /// The number of ended sessions that were not established, or on which a request failed.
    pub broken: u64,
    /// The times from the start of a session to its last reply, for sessions with replies.
    pub lifetime: Histogram,
    /// The times from the start of a session until it was established.
    pub connect: Histogram,
    /// The number of requests that were written.
    pub requests: u64,
    /// The number of bytes of the written requests, and of sent framing that belongs to no request.
    pub request_bytes: u64,
    /// The number of complete replies.
    pub replies: u64,
    /// The number of received bytes of header fields and framing.
    pub head_bytes: u64,
    /// The number of bytes of replies that are content.
    pub body_bytes: u64,
    /// The number of replies by status class, from 1xx to 5xx.
    pub status: [u64; 5],
    /// For each object, the time from the planned start of its request to the arrival of its last byte.
    pub latency: Histogram,
    /// For each session and each object, the time from the planned start to the actual start.
    pub start_delay: Histogram,
    /// The times from writing a request to the arrival of the last byte of the object.
    pub service: Histogram,
    /// The time from writing a request to the first byte of its reply, summed over all replies.
    pub response: Duration,
    /// The time from the first byte of a reply to its last byte, summed over all replies.
    pub transfer: Duration,
    /// The number of failures by cause, in the order of [`Cause::ALL`].
    pub errors: [u64; Cause::ALL.len()],
    /// The message of the first failure of each cause.
    pub first_messages: [Option<String>; Cause::ALL.len()],
    /// The measurements over time: one element per [`width`](Self::width) seconds. When the number of elements reaches
    /// [`MAX_LINES`], adjacent elements are merged in pairs.
    pub lines: Vec<Line>,
    /// The number of seconds that each element of `lines` covers. The last element may cover fewer.
    pub width: u32,
    /// The number of elapsed seconds that the unfinished last line covers. `current_line` has the values of these
    /// seconds.
    so_far: u32,
    current_line: Line,
    line_latency: Histogram,
}

/// The values of one line of the output. A line covers one or several seconds.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Line {
    /// The end of the seconds that this line covers, as the time since the start of the load.
    pub at: Duration,
    /// The number of sessions that were begun.
    pub sessions: u64,
    /// The number of sessions that were open at the end of the seconds that this line covers.
    pub concurrent: u64,
    /// The number of requests that were written.
    pub requests: u64,
    /// The number of complete replies.
    pub replies: u64,
    /// The number of bytes of replies.
    pub bytes: u64,
    /// The number of failures.
    pub errors: u64,
    /// The median, the 95th and 99th percentiles and the maximum of the latency of the line's replies (see
    /// [`Tally::latency`]). If two lines are merged, each of the four values is the higher one of the two lines.
    pub latency: [Duration; 4],
}

/// The measurements of a complete reply.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Reply {
    pub(super) status: u16,
    pub(super) planned: Instant,
    pub(super) sent: Instant,
    pub(super) first: Instant,
    pub(super) done: Instant,
    pub(super) head_bytes: u64,
    pub(super) body_bytes: u64,
}

impl Tally {
    pub(super) fn new(started_at: Instant) -> Self {
        // Writes the memory of all statistics lines once, so that the kernel allocates this memory now. The resident
        // memory must not grow during a long load test.
        let mut lines = vec![Line { at: Duration::MAX, ..Line::default() }; MAX_LINES];
        lines.clear();
        Self { started_at, last: started_at, width: 1, lines, ..Self::default() }
    }

    pub(super) fn began(&mut self) {
        self.sessions += 1;
        self.current_line.sessions += 1;
        self.concurrent += 1;
        self.max_concurrent = self.max_concurrent.max(self.concurrent);
    }

    pub(super) fn established(&mut self, after: Duration) {
        self.established += 1;
        self.connect.add(after);
    }

    /// Counts a session that has ended. `lasted` is its duration.
    pub(super) fn ended(&mut self, lasted: Duration, replies: u64, broken: bool) {
        self.concurrent -= 1;
        self.broken += u64::from(broken);
        if replies > 0 {
            self.sessions_with_replies += 1;
            self.lifetime.add(lasted);
        }
    }

    /// Returns the message of the most frequent failure, if no session has been established and at least one has failed.
    #[must_use]
    pub fn never_connected(&self) -> Option<&str> {
        let failures = self.errors.iter().zip(&self.first_messages);
        let (_, message) = failures.max_by_key(|(count, _)| **count)?;
        message.as_deref().filter(|_| self.established == 0)
    }

    pub(super) fn request_sent(&mut self, bytes: u64) {
        self.requests += 1;
        self.current_line.requests += 1;
        self.request_bytes += bytes;
    }

    /// Counts framing bytes of a session that belong to no particular request or reply.
    pub(super) fn add_framing(&mut self, sent: u64, received: u64) {
        self.request_bytes += sent;
        self.head_bytes += received;
    }

    pub(super) fn replied(&mut self, reply: Reply) {
        self.last = reply.done;
        self.replies += 1;
        self.current_line.replies += 1;
        self.head_bytes += reply.head_bytes;
        self.body_bytes += reply.body_bytes;
        self.current_line.bytes += reply.head_bytes + reply.body_bytes;
        if let Some(class) = self.status.get_mut(usize::from(reply.status / 100).wrapping_sub(1)) {
            *class += 1;
        }
        let latency = reply.done.since(reply.planned);
        self.latency.add(latency);
        self.line_latency.add(latency);
        self.service.add(reply.done.since(reply.sent));
        self.response += reply.first.since(reply.sent);
        self.transfer += reply.done.since(reply.first);
    }

    pub(super) fn failed(&mut self, now: Instant, cause: Cause, message: impl FnOnce() -> String) {
        self.last = now;
        self.current_line.errors += 1;
        self.errors[cause as usize] += 1;
        self.first_messages[cause as usize].get_or_insert_with(message);
    }

    /// Records that a second has passed. Closes the current line of the time series if the line now covers `width`
    /// seconds.
    pub(super) fn tick(&mut self, now: Instant) {
        self.so_far += 1;
        if self.so_far >= self.width {
            self.close_line(now);
        }
    }

    /// Closes the last line at the end of the load.
    pub(super) fn finish(&mut self, now: Instant) {
        self.close_line(now);
    }

    fn close_line(&mut self, now: Instant) {
        self.current_line.at = now.since(self.started_at);
        self.current_line.concurrent = self.concurrent;
        let latency = &self.line_latency;
        let percentiles = [0.5, 0.95, 0.99].map(|share| latency.percentile(share));
        self.current_line.latency = [percentiles[0], percentiles[1], percentiles[2], latency.max()];
        self.lines.push(self.current_line);
        if self.lines.len() == MAX_LINES {
            self.halve();
        }
        self.current_line = Line::default();
        self.so_far = 0;
        self.line_latency.clear();
    }

    /// Merges each pair of lines into one, and doubles the number of seconds per line.
    fn halve(&mut self) {
        for at in 0..MAX_LINES / 2 {
            self.lines[at] = self.lines[2 * at].and(&self.lines[2 * at + 1]);
        }
        self.lines.truncate(MAX_LINES / 2);
        self.width *= 2;
    }

    /// Returns the number of failures of all causes together.
    #[must_use]
    pub fn error_count(&self) -> u64 {
        self.errors.iter().sum()
    }

    /// Returns the number of replies with a status of 4xx or 5xx.
    #[must_use]
    pub fn refused_replies(&self) -> u64 {
        self.status[3] + self.status[4]
    }

    /// Returns the time from the start of the load to its last event.
    #[must_use]
    pub fn duration(&self) -> Duration {
        self.last.since(self.started_at)
    }
}

impl Line {
    /// Returns one line for the time of this line and of the next one together.
    fn and(&self, next: &Self) -> Self {
        let mut latency = self.latency;
        for (one, other) in latency.iter_mut().zip(next.latency) {
            *one = (*one).max(other);
        }
        Self {
            at: next.at,
            sessions: self.sessions + next.sessions,
            concurrent: next.concurrent,
            requests: self.requests + next.requests,
            replies: self.replies + next.replies,
            bytes: self.bytes + next.bytes,
            errors: self.errors + next.errors,
            latency,
        }
    }
}

/// The maximum number of lines. It is enough for twenty minutes with one line per second. In longer loads a line covers
/// two, four or more seconds.
pub const MAX_LINES: usize = 1200;

#[cfg(test)]
mod tests {
    use super::*;

    /// A load of any duration must have at most [`MAX_LINES`] lines, and their sums must be right.
    #[test]
    fn lines_of_a_long_load_are_put_together() {
        let mut tally = Tally::new(Instant::ZERO);
        for second in 1..=100_000_u64 {
            let now = Instant::from_millis(second * 1000);
            for _ in 0..second % 3 {
                tally.request_sent(10);
                tally.failed(now, Cause::Timeout, String::new);
            }
            tally.tick(now);
            assert!(tally.lines.len() <= MAX_LINES);
        }
        tally.request_sent(10);
        tally.finish(Instant::from_millis(100_000_500));
        assert_eq!(tally.width, 128);
        assert_eq!(tally.lines.iter().map(|line| line.requests).sum::<u64>(), tally.requests);
        assert_eq!(tally.lines.iter().map(|line| line.errors).sum::<u64>(), tally.error_count());
        assert!(tally.lines.is_sorted_by_key(|line| line.at));
        let wide =
            tally.lines.windows(2).take(700).all(|two| two[1].at - two[0].at == Duration::from_secs(128));
        assert!(wide && tally.lines[0].at == Duration::from_secs(128));
        assert_eq!(tally.lines.last().map(|line| line.at), Some(Duration::from_millis(100_000_500)));
    }
}
