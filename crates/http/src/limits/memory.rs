//! Accounts for the memory of the exchanges of one session in a budget that all sessions share. This memory consists of
//! buffers for heads and bodies. The buffers of the transport do not count.
//!
//! A session may begin another exchange while there is memory for it. One exchange without memory is always allowed, so
//! that the session makes progress. Further requests wait in the transport, where a request takes no more memory than
//! its bytes.

use anabranch_base::{Account, Budget};
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

/// The share of one session in the memory budget.
#[derive(Debug, Default)]
pub struct SessionMemory {
    /// The account of the session; `None` if there is no budget.
    account: Option<RefCell<Account>>,
    /// The number of exchanges that are counted against the budget.
    counted: Cell<usize>,
    /// The number of exchanges that began although there was no memory for them.
    beyond: Cell<usize>,
    /// The number of bytes of heads and bodies that the session holds.
    held: Cell<usize>,
    /// The waker of the session's task while the task waits to begin another exchange.
    waiting: RefCell<Option<Waker>>,
}

impl SessionMemory {
    /// Creates the account of one session in the memory budget of the server. Without a budget, the session's memory is
    /// not limited.
    pub fn new(budget: Option<&Budget>) -> Rc<Self> {
        let account = budget.map(|budget| RefCell::new(Account::new(budget, PART)));
        Rc::new(Self { account, ..Self::default() })
    }

    /// Completes when the session has memory for another exchange.
    pub fn poll_begin(&self, cx: &Context<'_>) -> Poll<()> {
        if self.beyond.get() == 0 || self.fits() {
            return Poll::Ready(());
        }
        *self.waiting.borrow_mut() = Some(cx.waker().clone());
        Poll::Pending
    }

    /// Begins an exchange, even if there is no memory for it. An exchange without memory is counted separately. While
    /// there is such an exchange, [`poll_begin`](Self::poll_begin) delays further exchanges until there is memory for
    /// them.
    pub fn begin(self: &Rc<Self>) -> ExchangePermit {
        let counts = self.fits();
        let count = if counts { &self.counted } else { &self.beyond };
        count.set(count.get() + 1);
        self.settle();
        ExchangePermit { memory: self.clone(), counts }
    }

    /// Returns whether there is no memory for another exchange. If so, a stream that waits for a request should release
    /// its buffers.
    pub fn is_short(&self) -> bool {
        self.beyond.get() > 0 || !self.fits()
    }

    /// Returns how many bytes of a body may be read at once: as many as the memory budget allows, but at most `most`.
    /// With a budget, the result is at least [`MIN_PIECE`], even if `most` is smaller.
    pub fn piece(&self, most: usize) -> usize {
        let Some(account) = &self.account else { return most };
        let left = usize::try_from(account.borrow().limit()).unwrap_or(usize::MAX);
        left.saturating_sub(self.bytes()).min(most).max(MIN_PIECE)
    }

    /// Returns a counter of bytes held in this session. The counter starts at 0.
    pub fn holding(self: &Rc<Self>) -> HeldBytes {
        HeldBytes { memory: self.clone(), bytes: 0 }
    }

    /// Counts another `bytes` bytes as held.
    pub fn hold(&self, bytes: usize) {
        self.held.set(self.held.get() + bytes);
        self.settle();
    }

    /// Reduces the number of held bytes by `bytes`.
    pub fn release(&self, bytes: usize) {
        self.held.set(self.held.get() - bytes);
        self.settle();
    }

    fn fits(&self) -> bool {
        let fits = |account: &RefCell<Account>| (self.bytes() + EXCHANGE) as u64 <= account.borrow().limit();
        self.account.as_ref().is_none_or(fits)
    }

    fn bytes(&self) -> usize {
        self.counted.get() * EXCHANGE + self.held.get()
    }

    fn settle(&self) {
        if let Some(account) = &self.account {
            account.borrow_mut().set_usage(self.bytes() as u64);
        }
    }
}

/// The permit of an exchange that has begun. Dropping it releases the memory of the exchange.
#[derive(Debug)]
pub struct ExchangePermit {
    memory: Rc<SessionMemory>,
    counts: bool,
}

impl Drop for ExchangePermit {
    fn drop(&mut self) {
        let memory = &self.memory;
        let count = if self.counts { &memory.counted } else { &memory.beyond };
        count.set(count.get() - 1);
        memory.settle();
        if let Some(waker) = memory.waiting.take() {
            waker.wake();
        }
    }
}

/// A number of bytes that are held in addition to the fixed cost of an exchange. Dropping this value releases them.
#[derive(Debug)]
pub struct HeldBytes {
    memory: Rc<SessionMemory>,
    bytes: usize,
}

impl HeldBytes {
    /// Returns whether there is memory to hold `bytes` bytes instead of the bytes held now. Always true if `bytes` is
    /// at most the number of bytes held now.
    pub fn fits(&self, bytes: usize) -> bool {
        let more = bytes.saturating_sub(self.bytes);
        let fits =
            |account: &RefCell<Account>| (self.memory.bytes() + more) as u64 <= account.borrow().limit();
        more == 0 || self.memory.account.as_ref().is_none_or(fits)
    }

    /// Sets the number of bytes held.
    pub fn set(&mut self, bytes: usize) {
        let before = std::mem::replace(&mut self.bytes, bytes);
        if before != bytes {
            self.memory.held.set(self.memory.held.get() - before + bytes);
            self.memory.settle();
        }
    }
}

impl Drop for HeldBytes {
    fn drop(&mut self) {
        self.set(0);
    }
}

/// The exchanges of a session may use 1/`PART` of the memory that the budget guarantees to the session (its floor).
const PART: u64 = 4;
/// The estimated memory of an exchange in bytes: two buffers of hyper, the task, and the smallest piece of a body.
const EXCHANGE: usize = 24 << 10;
/// The number of bytes of a body that may be read at once even if no memory is left.
const MIN_PIECE: usize = 4 << 10;

#[cfg(test)]
mod tests {
    use super::*;

    fn may_begin(memory: &SessionMemory) -> bool {
        memory.poll_begin(&Context::from_waker(Waker::noop())).is_ready()
    }

    #[test]
    fn one_session_may_have_many_exchanges_and_every_session_has_one() {
        let budget = Budget::new(2 << 20, 10);
        let fill = |memory: &Rc<SessionMemory>| {
            let one = || may_begin(memory).then(|| memory.begin());
            std::iter::from_fn(one).take(1000).collect::<Vec<_>>()
        };
        let sessions: Vec<_> = (0..10).map(|_| SessionMemory::new(Some(&budget))).collect();
        let exchanges: Vec<_> = sessions.iter().map(fill).collect();
        assert!(exchanges[0].len() > 5 && exchanges.iter().all(|own| !own.is_empty()));
        let all: usize = exchanges.iter().map(Vec::len).sum();
        assert!(all * EXCHANGE < 2 << 20, "{all}");
        assert!(!may_begin(&sessions[9]));
        drop(exchanges);
        assert!(sessions.iter().all(|session| may_begin(session)));
        let none = SessionMemory::new(None);
        assert_eq!((fill(&none).len(), none.piece(100_000), none.is_short()), (1000, 100_000, false));
    }

    #[test]
    fn exchanges_take_memory_from_their_beginning_to_their_end() {
        let budget = Budget::new(4 << 20, 10);
        let before = budget.room();
        let memory = SessionMemory::new(Some(&budget));
        let exchanges: Vec<_> = (0..8).map(|_| memory.begin()).collect();
        // The exchanges take 192 KiB, which is more than the floor of the session.
        assert!(budget.room() < before);
        drop(exchanges);
        assert_eq!(budget.room(), before);
    }

    #[test]
    fn held_bytes_are_counted_and_released() {
        let budget = Budget::new(4 << 20, 10);
        let before = budget.room();
        let (one, other) = (SessionMemory::new(Some(&budget)), SessionMemory::new(Some(&budget)));
        let (mut greedy, mut modest) = (one.holding(), other.holding());
        assert!(greedy.fits(200 << 10) && !greedy.fits(1 << 20));
        greedy.set(200 << 10);
        assert!(budget.room() < before && greedy.fits(200 << 10) && greedy.fits(0));
        assert!(modest.fits(100 << 10), "another has its own share");
        modest.set(100 << 10);
        modest.set(1);
        drop((greedy, modest));
        assert_eq!(budget.room(), before);
        assert!(SessionMemory::new(None).holding().fits(usize::MAX));
    }

    #[test]
    fn the_read_size_shrinks_when_memory_is_scarce() {
        let budget = Budget::new(4 << 20, 10);
        let (greedy, other) = (SessionMemory::new(Some(&budget)), SessionMemory::new(Some(&budget)));
        let alone = other.piece(1 << 20);
        greedy.hold(2 << 20);
        assert!(other.piece(1 << 20) < alone && greedy.piece(1 << 20) == MIN_PIECE);
        greedy.release(2 << 20);
        assert_eq!(other.piece(1 << 20), alone);
    }
}
