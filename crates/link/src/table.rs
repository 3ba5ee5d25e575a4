//! The table of impairments: each row defines the command-line flag, plan key, help, default, text form, element and
//! counter of one impairment.
//!
//! `impairments!` is called once, in `lib.rs`. Its rows generate the fields of [`DirectionSpec`], the elements of
//! [`Stage`], the counters of changed packets, and [`ROWS`](crate::ROWS). Command lines, plans and printing use `ROWS`.
//! The code for each row is in a file of its own, as an implementation of [`Impairment`].

use crate::contention::Contention;
use crate::element::Carried;
use crate::half_duplex::Medium;
use crate::loss::Nth;
use crate::spec::{LinkSpec, SpecError};
use crate::{DirectionSpec, Stage};
use anabranch_base::Rng;
use anabranch_base::time::Duration;
use std::cell::{Cell, RefCell};
use std::rc::Rc;

/// A key of a link, which is both a flag of the command line and a field of a plan.
#[derive(Debug)]
pub struct Row {
    /// The key's name. If the two directions can have different values, this key sets both values at once.
    pub key: &'static str,
    /// The key that sets the value of the up direction, and the key for the down direction. `None` if the directions
    /// cannot have different values.
    pub one_way: Option<[&'static str; 2]>,
    /// The placeholder for the key's value in help texts; empty for a switch.
    pub value: &'static str,
    /// One line of help, with the accepted forms of the value.
    pub help: &'static str,
    pub(crate) scope: Scope,
}

/// What a key applies to: one direction, or the whole link.
#[derive(Debug)]
pub(crate) enum Scope {
    /// The key sets a value that each direction has separately.
    Direction {
        set: fn(&mut DirectionSpec, &str) -> Result<(), String>,
        /// Copies the value of this key from the second argument to the first argument.
        copy: fn(&mut DirectionSpec, &DirectionSpec),
        /// Returns the direction's value of the key as text; empty if the value need not be written.
        show: fn(&DirectionSpec) -> String,
        check: fn(&DirectionSpec) -> Result<(), String>,
    },
    /// The key sets a value of the whole link.
    Link { set: fn(&mut LinkSpec, &str) -> Result<(), String>, copy: fn(&mut LinkSpec, &LinkSpec) },
}

/// One setting of a link direction, and the element that implements it. `T` is the type of the setting's value.
pub(crate) trait Impairment<T> {
    /// The position of the element in the chain. A packet passes the element with the lowest position first.
    const PLACE: u8 = 0;

    /// Parses the value of the setting.
    fn read(text: &str) -> Result<T, String>;

    /// Returns the value of the setting as text; empty if the value need not be written.
    fn show(spec: &DirectionSpec) -> String;

    /// Checks that the setting does not contradict the other settings of the direction.
    fn check(_spec: &DirectionSpec) -> Result<(), String> {
        Ok(())
    }

    /// Creates the element of the chain. Returns `None` if the setting has no effect, or if the element of another
    /// setting implements it.
    fn stage<P: Carried>(_side: &Side<'_>) -> Result<Option<Stage<P>>, SpecError> {
        Ok(None)
    }
}

/// A setting of both directions together, for example the round-trip time.
pub(crate) trait OfLink {
    fn set(link: &mut LinkSpec, text: &str) -> Result<(), String>;
    fn take(link: &mut LinkSpec, other: &LinkSpec);
}

/// The inputs for building the chain of one direction.
pub(crate) struct Side<'a> {
    /// The settings of the direction.
    pub(crate) spec: &'a DirectionSpec,
    /// The link's round-trip time without queueing.
    pub(crate) rtt: Duration,
    /// The seed of the run.
    pub(crate) seed: u64,
    /// The random number generator of the direction. Every element draws from its own fork of this generator.
    pub(crate) rng: Rng,
    /// The medium that both directions share in the order of arrival. `None` if each direction has its own medium, or
    /// if both ends contend for one medium (`contention`).
    pub(crate) medium: Option<Medium>,
    /// If both ends contend for the medium: the medium, and the index (0 or 1) of the end that sends in this direction.
    pub(crate) contention: Option<(Rc<RefCell<Contention>>, usize)>,
    /// The loss model's packet counter, if the packets of both directions are counted together.
    pub(crate) counter: Option<Rc<Cell<Nth>>>,
}

/// Returns the key of a row of the table: the name of its field, unless the row gives another name.
macro_rules! key {
    ($field:ident) => {
        stringify!($field)
    };
    ($field:ident $key:literal) => {
        $key
    };
}

/// Declares the table of impairments. A row for a setting of one direction has the form `field: type = default,
/// element, value, help;` (`field as "key"` if the key is not a valid field name). Two parts may follow `help`, in this
/// order:
///
/// - `, passing NAME` if the element implements [`ImmediateElement`](crate::element::ImmediateElement)
/// - `, counts FIELD at N "phrase"` if reports count the packets that the element affects; reports sort such counters
///   by N
macro_rules! impairments {
    ($(
        each direction {
            $(
                $(#[$doc:meta])*
                $field:ident $(as $name:literal)?: $kind:ty = $default:expr, $element:ty, $value:literal, $help:literal
                $(, passing $passing:ident)?
                $(, counts $count:ident at $rank:literal $phrase:literal)?;
            )*
        }
        $( both { $( $key:literal, $whole:ty, $whole_value:literal, $whole_help:literal; )* } )?
    )*) => {
        /// One direction of a link.
        #[derive(Clone, PartialEq, Eq, Debug)]
        pub struct DirectionSpec {
            $($( $(#[$doc])* pub $field: $kind, )*)*
            /// The times at which the link is down in this direction.
            pub outages: Vec<outage::Down>,
        }

        impl Default for DirectionSpec {
            fn default() -> Self {
                Self { $($( $field: $default, )*)* outages: Vec::new() }
            }
        }

        impl DirectionSpec {
            /// Creates the elements of one direction of the link, each with its position in the chain of elements.
            pub(crate) fn stages<P: Carried>(side: &table::Side<'_>) -> Result<Vec<(u8, Stage<P>)>, SpecError> {
                use table::Impairment;
                let mut stages = Vec::new();
                $($(
                    if let Some(stage) = <$element as Impairment<$kind>>::stage(side)? {
                        stages.push((<$element as Impairment<$kind>>::PLACE, stage));
                    }
                )*)*
                Ok(stages)
            }
        }

        /// All keys of a link, in the order of help texts.
        pub const ROWS: &[Row] = &[
            $(
                $(
                    Row {
                        key: key!($field $($name)?),
                        one_way: Some([
                            concat!("up-", key!($field $($name)?)),
                            concat!("down-", key!($field $($name)?)),
                        ]),
                        value: $value,
                        help: $help,
                        scope: table::Scope::Direction {
                            set: |spec, text| {
                                spec.$field = <$element as table::Impairment<$kind>>::read(text)?;
                                Ok(())
                            },
                            copy: |spec, other| spec.$field.clone_from(&other.$field),
                            show: <$element as table::Impairment<$kind>>::show,
                            check: <$element as table::Impairment<$kind>>::check,
                        },
                    },
                )*
                $($(
                    Row {
                        key: $key,
                        one_way: None,
                        value: $whole_value,
                        help: $whole_help,
                        scope: table::Scope::Link {
                            set: <$whole as table::OfLink>::set,
                            copy: <$whole as table::OfLink>::take,
                        },
                    },
                )*)?
            )*
        ];

        /// One element of a chain.
        #[derive(Debug)]
        #[expect(missing_docs, reason = "each variant is documented by the type it holds")]
        pub enum Stage<P> {
            Bottleneck(queue::Bottleneck),
            Codel(Box<queue::codel::CodelQueue<P>>),
            FqCodel(Box<queue::fq::FqCodel<P>>),
            Outage(outage::Outage),
            TraceDelay(Box<trace::series::TraceDelay>),
            Contender(Box<contention::Contender<P>>),
            SharedLoss(loss::SharedLoss<P>),
            $($( $( $passing($element), )? )*)*
        }

        impl<P: Carried> Stage<P> {
            /// Returns the fate of a packet; `None` if the element has to hold the packet.
            #[inline(always)]
            pub(crate) fn pass(&mut self, at: Instant, packet: &mut P, meter: &mut Meter) -> Option<Fate> {
                Some(match self {
                    Self::Bottleneck(stage) => stage.pass(at, packet, meter),
                    Self::Outage(stage) => stage.pass(at, packet, meter),
                    Self::TraceDelay(stage) => stage.pass(at, packet, meter),
                    $($( $( Self::$passing(stage) => stage.pass(at, packet, meter), )? )*)*
                    Self::Codel(_) | Self::FqCodel(_) | Self::Contender(_) | Self::SharedLoss(_) => return None,
                })
            }

            /// Returns the element if it implements `HoldingElement`.
            pub(crate) fn holding(&self) -> Option<&dyn HoldingElement<P>> {
                match self {
                    Self::Codel(stage) => Some(&**stage),
                    Self::FqCodel(stage) => Some(&**stage),
                    Self::Contender(stage) => Some(&**stage),
                    Self::SharedLoss(stage) => Some(stage),
                    Self::Bottleneck(_) | Self::Outage(_) | Self::TraceDelay(_) => None,
                    $($( $( Self::$passing(_) => None, )? )*)*
                }
            }

            /// Returns a mutable reference to the element if it implements `HoldingElement`.
            #[inline]
            pub(crate) fn holding_mut(&mut self) -> Option<&mut dyn HoldingElement<P>> {
                match self {
                    Self::Codel(stage) => Some(&mut **stage),
                    Self::FqCodel(stage) => Some(&mut **stage),
                    Self::Contender(stage) => Some(&mut **stage),
                    Self::SharedLoss(stage) => Some(stage),
                    Self::Bottleneck(_) | Self::Outage(_) | Self::TraceDelay(_) => None,
                    $($( $( Self::$passing(_) => None, )? )*)*
                }
            }
        }

        /// Packets that a chain has changed and not lost, by kind of change.
        #[derive(Clone, PartialEq, Eq, Debug, Default)]
        #[expect(missing_docs, reason = "each is what its element counts")]
        pub struct Changed {
            $($( $( pub $count: Tally, )? )*)*
        }

        impl Changed {
            /// Returns each counter with its name and a phrase that describes the counted packets. The order is that of
            /// the reports.
            #[must_use]
            pub fn each(&self) -> Vec<(&'static str, &'static str, Tally)> {
                let mut all = vec![
                    $($( $( ($rank, stringify!($count), $phrase, self.$count), )? )*)*
                ];
                all.sort_by_key(|(rank, ..)| *rank);
                all.into_iter().map(|(_, name, phrase, count)| (name, phrase, count)).collect()
            }

            /// Returns the sums of the counters of `self` and `other`.
            #[must_use]
            pub fn plus(&self, other: &Self) -> Self {
                Self { $($( $( $count: self.$count.plus(other.$count), )? )*)* }
            }
        }
    };
}
