//! The table of impairments: one row gives flag, plan key, help, default, text form, element and counter.
//!
//! `impairments!` is called once, in `lib.rs`. From its rows come the fields of [`DirectionSpec`], the elements of
//! [`Stage`], the counters of changed packets, and [`ROWS`](crate::ROWS), which command lines, plans and
//! printing walk. What a row does lies in a file of its own, as [`Impairment`].

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

/// A key of a link: a flag, and a field of a plan.
#[derive(Debug)]
pub struct Row {
    /// The key; of both directions where one has its own.
    pub key: &'static str,
    /// The key of the direction up and that of the direction down, where they have their own.
    pub one_way: Option<[&'static str; 2]>,
    /// What stands for the value in help texts; empty for a switch.
    pub value: &'static str,
    /// One line of help, the accepted forms included.
    pub help: &'static str,
    pub(crate) scope: Scope,
}

/// What a key sets.
#[derive(Debug)]
pub(crate) enum Scope {
    /// Something of each direction.
    Direction {
        set: fn(&mut DirectionSpec, &str) -> Result<(), String>,
        /// Copies it from the second.
        take: fn(&mut DirectionSpec, &DirectionSpec),
        /// The setting as text; empty where nothing need be said.
        show: fn(&DirectionSpec) -> String,
        check: fn(&DirectionSpec) -> Result<(), String>,
    },
    /// Something of the link.
    Link { set: fn(&mut LinkSpec, &str) -> Result<(), String>, take: fn(&mut LinkSpec, &LinkSpec) },
}

/// A setting of one direction, of the type `T`, and the element that obeys it.
pub(crate) trait Impairment<T> {
    /// Where its element stands in the chain: the packet meets the smallest first.
    const PLACE: u8 = 0;

    /// The value that `text` stands for.
    fn read(text: &str) -> Result<T, String>;

    /// The direction's value as text; empty where nothing need be said.
    fn show(spec: &DirectionSpec) -> String;

    /// Finds what does not go with the direction's other settings.
    fn check(_spec: &DirectionSpec) -> Result<(), String> {
        Ok(())
    }

    /// The element; none where nothing is to be done, or where another row's does it.
    fn stage<P: Carried>(_side: &Side<'_>) -> Result<Option<Stage<P>>, SpecError> {
        Ok(None)
    }
}

/// A setting of both directions together.
pub(crate) trait OfLink {
    fn set(link: &mut LinkSpec, text: &str) -> Result<(), String>;
    fn take(link: &mut LinkSpec, other: &LinkSpec);
}

/// One direction in the making.
pub(crate) struct Side<'a> {
    /// What it is to be.
    pub(crate) spec: &'a DirectionSpec,
    /// The link's round trip without queues.
    pub(crate) rtt: Duration,
    /// The run's seed.
    pub(crate) seed: u64,
    /// The direction's luck: every element draws from a fork of it.
    pub(crate) rng: Rng,
    /// The medium, where both directions share one.
    pub(crate) medium: Option<Medium>,
    /// The medium and which end this is, where both ends contend for it.
    pub(crate) contention: Option<(Rc<RefCell<Contention>>, usize)>,
    /// The counter of lost packets, where both directions share one.
    pub(crate) counter: Option<Rc<Cell<Nth>>>,
}

/// The key of a row: its field's name, unless another is given.
macro_rules! key {
    ($field:ident) => {
        stringify!($field)
    };
    ($field:ident $key:literal) => {
        $key
    };
}

/// Declares the table; see this module. A row of a direction is
/// `field: type = default, element, value, help;` (`field as "key"` where the key is no name of a field), with `passing NAME` behind it where its element decides at once, and
/// `counts FIELD at N "phrase"` where that changes packets: N orders the counters in reports.
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
            /// When it is down.
            pub outages: Vec<outage::Down>,
        }

        impl Default for DirectionSpec {
            fn default() -> Self {
                Self { $($( $field: $default, )*)* outages: Vec::new() }
            }
        }

        impl DirectionSpec {
            /// The elements of its settings, each with its place.
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

        /// Every key of a link, in the order of help texts.
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
                            take: |spec, other| spec.$field.clone_from(&other.$field),
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
                            take: <$whole as table::OfLink>::take,
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
            /// What becomes of a packet; `None` where the element will hold it.
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
        }

        /// Packets that a chain changed and did not lose, by what it did.
        #[derive(Clone, PartialEq, Eq, Debug, Default)]
        #[expect(missing_docs, reason = "each is what its element counts")]
        pub struct Changed {
            $($( $( pub $count: Tally, )? )*)*
        }

        impl Changed {
            /// Each counter with its name and a phrase for its packets, in the order of reports.
            #[must_use]
            pub fn each(&self) -> Vec<(&'static str, &'static str, Tally)> {
                let mut all = vec![
                    $($( $( ($rank, stringify!($count), $phrase, self.$count), )? )*)*
                ];
                all.sort_by_key(|(rank, ..)| *rank);
                all.into_iter().map(|(_, name, phrase, count)| (name, phrase, count)).collect()
            }

            /// The counts of both.
            #[must_use]
            pub fn plus(&self, other: &Self) -> Self {
                Self { $($( $( $count: self.$count.plus(other.$count), )? )*)* }
            }
        }
    };
}
