//! Tables of knobs: the settings of an engine, each declared in one row.
//!
//! A row of [`knobs!`](crate::knobs!) declares the knob's field, type, default, source of the default, text form and
//! help. The settings struct, its defaults, parsing, printing and profiles are derived from the rows. A [`Profile`]
//! lists the values that differ from those of its parent profile.

pub mod forms;

/// The source of a value that the user has set.
pub const BY_USER: &str = "set by the user";

/// A knob and its current value.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Knob {
    /// The knob's name on the command line.
    pub key: &'static str,
    /// The knob's value, in the text form that can be parsed again.
    pub value: String,
    /// The meaning of the knob, and the accepted text forms.
    pub help: &'static str,
    /// The source of the value, for example an RFC section.
    pub source: &'static str,
}

/// The reason why a knob could not be set, as one line that names the accepted values.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{0}")]
pub struct KnobError(pub String);

/// Converts the value of a knob to and from text.
pub trait Form<T> {
    /// Returns the value as text, in the form that [`read`](Self::read) accepts.
    fn show(&self, value: &T) -> String;

    /// Parses `text`.
    ///
    /// # Errors
    /// The reason why `text` is not an accepted value.
    fn read(&self, text: &str) -> Result<T, String>;
}

/// A row of the table of knobs for the settings `C`.
#[derive(Debug)]
pub struct Row<C> {
    /// The knob's name, which is also the name of its field.
    pub key: &'static str,
    /// The meaning of the knob, and the accepted text forms.
    pub help: &'static str,
    /// The source of the default, for example an RFC section.
    pub source: &'static str,
    /// Returns the knob's value as text.
    pub show: fn(&C) -> String,
    /// Sets the knob's value from text.
    pub set: fn(&mut C, &str) -> Result<(), String>,
}

/// A named set of knob values that replace the values of the parent profile. Without a parent, they replace the
/// defaults in the table of knobs.
#[derive(Debug)]
pub struct Profile {
    /// The profile's name.
    pub name: &'static str,
    /// The profile that provides all values not listed in `rows`. With `None`, the defaults of the table of knobs
    /// provide them.
    pub parent: Option<&'static Profile>,
    /// The values that differ from `parent`. Each entry is the name of a knob, its value as text, and the source of the
    /// value.
    pub rows: &'static [(&'static str, &'static str, &'static str)],
}

/// Returns the names of `profiles`, in order.
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

/// Settings that [`knobs!`](crate::knobs!) has declared.
pub trait Table: Sized + 'static {
    /// One row for each knob.
    const ROWS: &'static [Row<Self>];

    /// Returns the defaults of the rows.
    fn defaults() -> Self;

    /// Returns the source of each value, in the order of the rows.
    fn sources(&self) -> &[&'static str];

    /// Returns a mutable reference to the sources of all values, in the order of the rows.
    fn sources_mut(&mut self) -> &mut [&'static str];

    /// Returns the index of the row of knob `key`.
    #[must_use]
    fn position(key: &str) -> Option<usize> {
        Self::ROWS.iter().position(|row| row.key == key)
    }

    /// Returns the names of the knobs, joined by commas.
    #[must_use]
    fn keys() -> String {
        Self::ROWS.iter().map(|row| row.key).collect::<Vec<_>>().join(", ")
    }

    /// Sets the knob in row `at` to `text`, and records `source` as the source of the value.
    ///
    /// # Errors
    /// The reason why `text` is not an accepted value.
    fn set_row(&mut self, at: usize, text: &str, source: &'static str) -> Result<(), String> {
        (Self::ROWS[at].set)(self, text)?;
        self.sources_mut()[at] = source;
        Ok(())
    }

    /// Sets each knob of `needs` to its value in `needs`, unless the user has set the knob.
    fn set_if_unset(&mut self, needs: &[(&str, &str)], source: &'static str) {
        for (key, value) in needs {
            let at = Self::position(key);
            if at.is_some_and(|at| self.sources()[at] == BY_USER) {
                continue;
            }
            let set = at.map(|at| self.set_row(at, value, source));
            assert!(matches!(set, Some(Ok(()))), "{key}={value}: {set:?}");
        }
    }

    /// Returns the first knob of `needs` whose current value differs from the needed value, and the needed value.
    #[must_use]
    fn unmet<'a>(&self, needs: &[(&'a str, &'a str)]) -> Option<(&'a str, &'a str)> {
        let has = |(key, value): &(&str, &str)| {
            Self::ROWS.iter().any(|row| row.key == *key && (row.show)(self) == *value)
        };
        needs.iter().find(|need| !has(need)).copied()
    }

    /// Returns every knob with its value and the source of the value.
    #[must_use]
    fn list(&self) -> Vec<Knob> {
        Self::ROWS
            .iter()
            .zip(self.sources().iter().copied())
            .map(|(row, source)| Knob { key: row.key, value: (row.show)(self), help: row.help, source })
            .collect()
    }

    /// Returns the settings of the profile `name`; `None` if `profiles` has no such profile.
    #[must_use]
    fn named(profiles: &[&Profile], name: &str) -> Option<Self> {
        profiles.iter().find(|profile| profile.name == name).map(|profile| Self::of(profile))
    }

    /// Returns the settings of `profile`, including those inherited from its parents.
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

/// Declares settings: a struct with a field for each knob, and its implementation of [`Table`].
///
/// A knob has the form `field: type = default, source, form, help;`. The fields in the block `beside` are not knobs.
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
            /// The source of each value, in the order of the rows.
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
