//! Serial number arithmetic: numbers that wrap around and are compared by their distance.
//!
//! Implements RFC 9260 §1.6 (TSN, SSN) and RFC 1982, which RFC 9260 cites.

/// Declares a wrapping serial number type over an unsigned integer.
#[macro_export]
macro_rules! serial {
    ($(#[$doc:meta])* $name:ident: $int:ty) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, Hash, Default, Debug)]
        pub struct $name(pub $int);

        impl $name {
            /// Half of the number space. A number that is ahead by this distance or more counts as earlier.
            const HALF: $int = 1 << (<$int>::BITS - 1);

            /// Returns this number plus `n`, with wrapping.
            #[must_use]
            #[inline]
            pub const fn plus(self, n: $int) -> Self {
                Self(self.0.wrapping_add(n))
            }

            /// Returns this number minus `n`, with wrapping.
            #[must_use]
            #[inline]
            pub const fn minus(self, n: $int) -> Self {
                Self(self.0.wrapping_sub(n))
            }

            /// Returns the number after this one.
            #[must_use]
            #[inline]
            pub const fn next(self) -> Self {
                self.plus(1)
            }

            /// Returns how far this number is ahead of `other`, modulo the number space.
            #[must_use]
            #[inline]
            pub const fn distance_from(self, other: Self) -> $int {
                self.0.wrapping_sub(other.0)
            }

            /// RFC 1982 §3.2: returns whether this number is strictly later than `other`.
            #[must_use]
            #[inline]
            pub const fn after(self, other: Self) -> bool {
                let ahead = self.distance_from(other);
                ahead != 0 && ahead < Self::HALF
            }

            /// RFC 1982 §3.2: returns whether this number is strictly earlier than `other`.
            #[must_use]
            #[inline]
            pub const fn before(self, other: Self) -> bool {
                other.after(self)
            }

            /// Returns whether this number is later than or equal to `other`.
            #[must_use]
            #[inline]
            pub const fn at_or_after(self, other: Self) -> bool {
                self.0 == other.0 || self.after(other)
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                std::fmt::Display::fmt(&self.0, f)
            }
        }
    };
}

#[cfg(test)]
mod tests {
    serial!(
        /// A 16-bit serial number for the tests.
        Small: u16
    );

    #[test]
    fn order_survives_the_wrap() {
        let last = Small(u16::MAX);
        assert!(last.next().after(last));
        assert!(last.before(last.plus(0x7fff)));
        assert!(!last.plus(0x8000).after(last), "half the space away is not after");
        assert!(last.at_or_after(last) && !last.after(last));
        assert_eq!(Small(3).distance_from(last), 4);
        assert_eq!(Small(3).minus(4), last);
    }
}
