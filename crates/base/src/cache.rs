//! Asking memory for what is needed soon, so that nobody waits for it then.
//!
//! A hint and nothing else: what a program does is the same with and without it. Where a processor has no such
//! instruction that stable Rust can name without `unsafe`, nothing is asked for.

/// What a processor reads of memory at a time, in bytes, on nearly all there are.
pub const LINE: usize = 64;

/// The caches fetch what `value` begins with.
#[inline(always)]
pub fn prefetch<T>(value: &T) {
    #[cfg(target_arch = "x86_64")]
    safe_arch::prefetch_t0(value);
    #[cfg(not(target_arch = "x86_64"))]
    let _ = value;
}

/// The caches fetch `bytes`: one request a [`LINE`], so only as many as are worth it.
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
