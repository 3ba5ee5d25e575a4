//! A memory budget that is shared by many sessions, across all threads.
//!
//! Up to half of the budget is reserved: each session may always hold a fixed minimum, its floor, whatever other
//! sessions hold. The rest is a pool.
//!
//! A session has an [`Account`] for each of its parts that need memory. In addition to its share of the floor, an
//! account may hold an eighth of the bytes that are still free in the pool. This limit is the dynamic threshold of
//! Choudhury and Hahne (1998). An account that is alone can therefore hold a ninth of the pool: eight ninths are then
//! free. If many sessions compete, some memory is always left for the next session.
//!
//! This module only counts bytes. The owner of an account asks for the account's limit before it allocates memory, and
//! uses less memory when the limit falls.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering::Relaxed};

/// A limit on the memory that all sessions hold together. All clones count towards the same limit.
#[derive(Clone, Debug)]
pub struct Budget {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    total: u64,
    floor: u64,
    available: AtomicI64,
}

/// Two budgets are equal if they share one counter of used bytes. Budgets of the same size with separate counters are
/// not equal.
impl PartialEq for Budget {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.shared, &other.shared)
    }
}

impl Eq for Budget {}

impl Budget {
    /// Creates a budget of `total` bytes for at most `sessions` sessions at a time.
    ///
    /// ```
    /// use anabranch_base::Budget;
    ///
    /// let budget = Budget::new(1 << 20, 16);
    /// assert_eq!(budget.floor(), 32 << 10, "half of the total, divided by 16 sessions");
    /// assert_eq!(budget.room(), 64 << 10, "an eighth of the other half");
    /// ```
    #[must_use]
    pub fn new(total: u64, sessions: u64) -> Self {
        let floor = (total / 2 / sessions.max(1)).min(MAX_FLOOR);
        let pool = total - (floor * sessions).min(total);
        let left = AtomicI64::new(i64::try_from(pool).unwrap_or(i64::MAX));
        Self { shared: Arc::new(Shared { total, floor, available: left }) }
    }

    /// Returns the size of the whole budget in bytes.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.shared.total
    }

    /// Returns the number of bytes that each session may hold, whatever other sessions hold.
    #[must_use]
    pub fn floor(&self) -> u64 {
        self.shared.floor
    }

    /// Returns the number of bytes of the pool that a single account may hold at present.
    #[must_use]
    pub fn room(&self) -> u64 {
        u64::try_from(self.shared.available.load(Relaxed)).unwrap_or(0) / SHARES
    }

    fn take(&self, bytes: i64) {
        self.shared.available.fetch_sub(bytes, Relaxed);
    }
}

/// The share of a [`Budget`] that one part of a session holds. The share is released on drop.
#[derive(Debug)]
pub struct Account {
    budget: Budget,
    /// The number of bytes that the account may always hold: its share of the session's floor.
    floor: u64,
    /// The number of bytes taken from the pool.
    charged: u64,
}

impl Account {
    /// Creates an account for one part of a session. The account may always hold 1/`part` of [`Budget::floor`]. It may
    /// also hold [`Budget::room`] bytes of the pool.
    #[must_use]
    pub fn new(budget: &Budget, part: u64) -> Self {
        Self { floor: budget.floor() / part.max(1), budget: budget.clone(), charged: 0 }
    }

    /// Returns the number of bytes that the account may hold at present.
    ///
    /// ```
    /// use anabranch_base::{Account, Budget};
    ///
    /// let budget = Budget::new(1 << 20, 16);
    /// let (mut one, other) = (Account::new(&budget, 4), Account::new(&budget, 4));
    /// assert_eq!(one.limit(), (8 << 10) + (64 << 10));
    /// one.set_usage(70 << 10);
    /// assert!(other.limit() < one.limit() + (8 << 10), "less is left");
    /// drop(one);
    /// assert_eq!(other.limit(), (8 << 10) + (64 << 10));
    /// ```
    #[must_use]
    pub fn limit(&self) -> u64 {
        self.floor + self.budget.room()
    }

    /// Returns the number of bytes that the account may always hold: its share of the session's floor.
    #[must_use]
    pub fn floor(&self) -> u64 {
        self.floor
    }

    /// Returns whether the account holds bytes from the pool.
    #[must_use]
    pub fn is_charged(&self) -> bool {
        self.charged > 0
    }

    /// Records that the account now holds `bytes` bytes. The counter is shared by all threads, so it is not updated for
    /// changes of less than 4 KiB. A decrease to the floor or below always updates the counter.
    pub fn set_usage(&mut self, bytes: u64) {
        let beyond = bytes.saturating_sub(self.floor);
        if beyond.abs_diff(self.charged) >= GRAIN || beyond == 0 && self.charged > 0 {
            self.budget.take(beyond.cast_signed() - self.charged.cast_signed());
            self.charged = beyond;
        }
    }
}

impl Drop for Account {
    fn drop(&mut self) {
        self.budget.take(-self.charged.cast_signed());
    }
}

/// The maximum floor in bytes. A floor is the memory that is guaranteed to one session. A session gains nothing from a
/// larger floor.
const MAX_FLOOR: u64 = 256 << 10;
/// The divisor for the share of one account: it may hold 1/`SHARES` of the bytes left in the pool.
const SHARES: u64 = 8;
/// The smallest change in bytes that is counted.
const GRAIN: u64 = 4 << 10;

#[cfg(test)]
mod tests {
    use super::*;

    /// Every session takes as much memory as it may and releases none. The budget must not be exceeded, and each
    /// session must get its floor.
    #[test]
    fn total_usage_stays_within_the_budget() {
        for (total, sessions) in [(256_u64 << 20, 1280_u64), (16 << 20, 100), (1 << 30, 3), (1 << 20, 20_000)]
        {
            let budget = Budget::new(total, sessions);
            let mut accounts = Vec::new();
            for number in 0..sessions {
                let mut account = Account::new(&budget, 1);
                let mut usage = account.floor();
                // The account takes memory in steps of 10,000 bytes, up to its limit or 4 MiB.
                while usage + 10_000 <= account.limit().min(4 << 20) {
                    usage += 10_000;
                    account.set_usage(usage);
                }
                assert!(number > 0 || usage + 10_000 > (4_u64 << 20).min(total / 18), "alone: {usage}");
                accounts.push((account, usage));
            }
            let all: u64 = accounts.iter().map(|(_, usage)| usage).sum();
            assert!(all <= total, "{all} of {total}");
            drop(accounts);
            assert_eq!(budget.room(), Budget::new(total, sessions).room(), "all is given back");
        }
    }

    #[test]
    fn small_changes_are_not_counted() {
        let budget = Budget::new(1 << 20, 1);
        let before = budget.room();
        let mut account = Account::new(&budget, 1);
        let floor = account.floor();
        account.set_usage(floor + GRAIN - 1);
        assert_eq!(budget.room(), before);
        account.set_usage(floor + GRAIN);
        assert_eq!(budget.room(), before - GRAIN / SHARES);
        account.set_usage(floor);
        assert_eq!(budget.room(), before);
    }
}
