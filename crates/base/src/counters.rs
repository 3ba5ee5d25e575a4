//! Declares structs of counters that can be added up.

/// Declares a struct of counters with a method `add`, which adds the counters of another value. The fields after
/// `beside` are not counters.
///
/// ```
/// anabranch_base::counters! {
///     /// What a connection has counted.
///     #[derive(Clone, Copy, Debug, Default)]
///     pub struct Stats {
///         /// Packets sent.
///         sent,
///     }
///     beside {}
/// }
///
/// let mut sum = Stats { sent: 1 };
/// sum.add(&Stats { sent: 2 });
/// assert_eq!(sum.sent, 3);
/// ```
#[macro_export]
macro_rules! counters {
    (
        $(#[$about:meta])*
        pub struct $name:ident {
            $( $(#[$doc:meta])* $field:ident, )*
        }
        beside {
            $( $(#[$beside_doc:meta])* $beside:ident: $kind:ty, )*
        }
    ) => {
        $(#[$about])*
        pub struct $name {
            $( $(#[$doc])* pub $field: u64, )*
            $( $(#[$beside_doc])* pub $beside: $kind, )*
        }

        impl $name {
            /// Adds the counters of `other`. Fields that are not counters keep their values.
            pub fn add(&mut self, other: &Self) {
                $( self.$field += other.$field; )*
            }
        }
    };
}
