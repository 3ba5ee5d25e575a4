//! Text forms that knobs of several engines use.

use super::Form;
use crate::time::Duration;
use crate::units::{format_duration, parse_duration};
use std::fmt::Display;
use std::str::FromStr;

/// A value that is written as one of a fixed list of names, such as `reno` or `cubic`.
#[derive(Debug)]
pub struct Names<T: 'static>(pub &'static [(&'static str, T)]);

impl<T: Copy + PartialEq> Form<T> for Names<T> {
    fn show(&self, value: &T) -> String {
        self.0.iter().find(|(_, known)| known == value).map_or("?", |(name, _)| name).to_owned()
    }

    fn read(&self, text: &str) -> Result<T, String> {
        self.0.iter().find(|(name, _)| *name == text).map(|(_, value)| *value).ok_or_else(|| {
            let names: Vec<_> = self.0.iter().map(|(name, _)| *name).collect();
            format!("'{text}' is not one of {}", names.join(", "))
        })
    }
}

/// A switch, written `yes` or `no`.
pub const SWITCH: Names<bool> = Names(&[("yes", true), ("no", false)]);

/// A whole number between two bounds, inclusive.
#[derive(Debug)]
pub struct Number<T>(pub T, pub T);

impl<T: FromStr + Display + PartialOrd> Form<T> for Number<T> {
    fn show(&self, value: &T) -> String {
        value.to_string()
    }

    fn read(&self, text: &str) -> Result<T, String> {
        let Self(min, max) = self;
        let number = text.parse().ok().filter(|number| (min..=max).contains(&number));
        number.ok_or_else(|| format!("'{text}' is not a number from {min} to {max}"))
    }
}

/// A duration, which may be 0.
#[derive(Debug)]
pub struct SpanOrZero;

impl Form<Duration> for SpanOrZero {
    fn show(&self, value: &Duration) -> String {
        format_duration(*value)
    }

    fn read(&self, text: &str) -> Result<Duration, String> {
        parse_duration(text).map_err(|error| error.to_string())
    }
}

/// The text form of a value, given by a function that parses the text and a function that formats the value.
#[derive(Debug)]
pub struct Text<T>(pub fn(&str) -> Result<T, String>, pub fn(&T) -> String);

impl<T> Form<T> for Text<T> {
    fn show(&self, value: &T) -> String {
        (self.1)(value)
    }

    fn read(&self, text: &str) -> Result<T, String> {
        (self.0)(text)
    }
}
