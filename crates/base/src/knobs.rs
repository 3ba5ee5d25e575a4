//! Tables of knobs: the settings of an engine, each declared once.
//!
//! A row of [`knobs!`](crate::knobs!) gives a knob its field, type, default with its source, text form and help; the
//! struct, its defaults, parsing, printing and profiles are derived from the rows. A [`Profile`] says in what it differs
//! from its parent.

/// A knob with its present value.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Knob {
    /// Its name on the command line.
    pub key: &'static str,
    /// Its value, in the form that `set` reads.
    pub value: String,
    /// What it means, and in which forms it is written.
    pub help: &'static str,
    /// Where the value comes from.
    pub source: &'static str,
}

/// Why a knob was not set: one line that names what would be right.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{0}")]
pub struct KnobError(pub String);

/// How the value of a knob is written and read.
pub trait Form<T> {
    /// The value as text, in the form that [`read`](Self::read) takes.
    fn show(&self, value: &T) -> String;

    /// The value that `text` stands for.
    ///
    /// # Errors
    /// Why it stands for none.
    fn read(&self, text: &str) -> Result<T, String>;
}

/// A row of the table of the settings `C`.
#[derive(Debug)]
pub struct Row<C> {
    /// The knob's name: that of its field.
    pub key: &'static str,
    /// What it means, and in which forms it is written.
    pub help: &'static str,
    /// Where its default comes from.
    pub source: &'static str,
    /// Its value as text.
    pub show: fn(&C) -> String,
    /// Sets it from text.
    pub set: fn(&mut C, &str) -> Result<(), String>,
}

/// A named set of values: what differs from its parent, or from the rows' defaults.
#[derive(Debug)]
pub struct Profile {
    /// The profile's name.
    pub name: &'static str,
    /// The profile that gives what `rows` leave out; `None` for the rows' defaults.
    pub parent: Option<&'static Profile>,
    /// Knob, value as text, and where the value comes from.
    pub rows: &'static [(&'static str, &'static str, &'static str)],
}

/// The names of profiles, in their order.
#[must_use]
pub const fn names<const N: usize>(profiles: &[&Profile; N]) -> [&'static str; N] {
    let mut names = [""; N];
    let mut at = 0;
    while at < N {
        names[at] = profiles[at].name;
        at += 1;
    }
    names
}

/// Settings that [`knobs!`](crate::knobs!) declared.
pub trait Table: Sized + 'static {
    /// Every knob, once.
    const ROWS: &'static [Row<Self>];

    /// The rows' defaults.
    fn defaults() -> Self;

    /// Where each value comes from, in the order of the rows.
    fn sources(&self) -> &[&'static str];

    /// The same, to be changed.
    fn sources_mut(&mut self) -> &mut [&'static str];

    /// Where the knob `key` stands among the rows.
    #[must_use]
    fn position(key: &str) -> Option<usize> {
        Self::ROWS.iter().position(|row| row.key == key)
    }

    /// The knobs' names, joined by commas.
    #[must_use]
    fn keys() -> String {
        Self::ROWS.iter().map(|row| row.key).collect::<Vec<_>>().join(", ")
    }

    /// Sets the knob of row `at`, whose value comes from `source`.
    ///
    /// # Errors
    /// What is wrong with `text`.
    fn set_row(&mut self, at: usize, text: &str, source: &'static str) -> Result<(), String> {
        (Self::ROWS[at].set)(self, text)?;
        self.sources_mut()[at] = source;
        Ok(())
    }

    /// Every knob with its value and where that comes from.
    #[must_use]
    fn list(&self) -> Vec<Knob> {
        Self::ROWS
            .iter()
            .zip(self.sources().iter().copied())
            .map(|(row, source)| Knob { key: row.key, value: (row.show)(self), help: row.help, source })
            .collect()
    }

    /// The settings of a profile.
    #[must_use]
    fn of(profile: &Profile) -> Self {
        let mut settings = profile.parent.map_or_else(Self::defaults, Self::of);
        for (key, value, source) in profile.rows {
            let set = Self::position(key).map(|at| settings.set_row(at, value, source));
            assert!(matches!(set, Some(Ok(()))), "profile {}: {key}={value}: {set:?}", profile.name);
        }
        settings
    }
}

/// Declares settings: a struct with a field for each knob, and its [`Table`].
///
/// A row is `field: type = default, source, form, help;`. What stands behind `beside` are fields that are no knobs.
///
/// ```
/// use anabranch_base::knobs::{Form, Table};
///
/// struct Number;
///
/// impl Form<u32> for Number {
///     fn show(&self, value: &u32) -> String {
///         value.to_string()
///     }
///     fn read(&self, text: &str) -> Result<u32, String> {
///         text.parse().map_err(|_| "a whole number is needed".to_owned())
///     }
/// }
///
/// anabranch_base::knobs! {
///     /// The settings of a stack.
///     #[derive(Debug)]
///     pub struct Config {
///         /// Packets that may be outstanding.
///         window: u32 = 4, "RFC 9999 §1", Number, "packets outstanding, such as 4";
///     }
///     beside {}
/// }
///
/// let mut config = Config::defaults();
/// config.set_row(0, "8", "set by the user").expect("a number");
/// assert_eq!((config.window, config.list()[0].source), (8, "set by the user"));
/// ```
#[macro_export]
macro_rules! knobs {
    (
        $(#[$about:meta])*
        pub struct $config:ident {
            $(
                $(#[$doc:meta])*
                $field:ident: $kind:ty = $default:expr, $source:expr, $form:expr, $help:expr;
            )*
        }
        beside {
            $( $(#[$beside_doc:meta])* $beside:ident: $beside_kind:ty = $beside_default:expr; )*
        }
    ) => {
        $(#[$about])*
        pub struct $config {
            $( $(#[$doc])* pub $field: $kind, )*
            $( $(#[$beside_doc])* pub $beside: $beside_kind, )*
            /// Where each value comes from, in the order of the rows.
            sources: [&'static str; [$(stringify!($field)),*].len()],
        }

        impl $crate::knobs::Table for $config {
            const ROWS: &'static [$crate::knobs::Row<Self>] = &[
                $(
                    $crate::knobs::Row {
                        key: stringify!($field),
                        help: $help,
                        source: $source,
                        show: |settings| $crate::knobs::Form::<$kind>::show(&$form, &settings.$field),
                        set: |settings, text| {
                            settings.$field = $crate::knobs::Form::<$kind>::read(&$form, text)?;
                            Ok(())
                        },
                    },
                )*
            ];

            fn defaults() -> Self {
                Self {
                    $( $field: $default, )*
                    $( $beside: $beside_default, )*
                    sources: [$($source),*],
                }
            }

            fn sources(&self) -> &[&'static str] {
                &self.sources
            }

            fn sources_mut(&mut self) -> &mut [&'static str] {
                &mut self.sources
            }
        }
    };
}
