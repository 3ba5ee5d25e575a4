//! Prefetches memory that is needed soon, to hide its latency.
//!
//! Prefetching is only a hint: it never changes the results of a program. On x86-64, the crate `safe_arch` offers the
//! prefetch instruction without `unsafe`. On other processors, these functions do nothing.

/// The size of a cache line in bytes on nearly all processors.
pub const LINE: usize = 64;

/// Prefetches the cache line in which `value` begins.
#[inline(always)]
pub fn prefetch<T>(value: &T) {
    #[cfg(target_arch = "x86_64")]
    safe_arch::prefetch_t0(value);
    #[cfg(not(target_arch = "x86_64"))]
    let _ = value;
}

/// Prefetches `bytes`, one cache line of [`LINE`] bytes at a time. Each cache line costs one instruction, so callers
/// pass only bytes that they need soon.
#[inline(always)]
pub fn prefetch_all(bytes: &[u8]) {
    for line in bytes.chunks(LINE) {
        prefetch(&line[0]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_of_any_length_can_be_asked_for() {
        let bytes = [7_u8; 3 * LINE];
        for length in 0..bytes.len() {
            prefetch_all(&bytes[..length]);
        }
        assert_eq!(bytes, [7; 3 * LINE]);
    }
}
