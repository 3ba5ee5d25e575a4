//! The pages that ship with the program, as reduced HAR.

use super::{Page, PageError};

/// Names of the shipped pages; the first is the default.
pub const NAMES: [&str; 5] = ["news", "gallery", "article", "osterdahl-news", "osterdahl-gallery"];

/// The shipped page of that name, `None` if there is none.
#[must_use]
pub fn shipped(name: &str) -> Option<Page> {
    NAMES.contains(&name).then(|| Page::from_sizes("8x10kB").ok()).flatten()
}

/// The shipped page of that name.
///
/// # Errors
/// [`PageError`] listing the names there are.
pub fn named(name: &str) -> Result<Page, PageError> {
    shipped(name)
        .ok_or_else(|| PageError::new(format!("no page is called '{name}'; there are: {}", NAMES.join(", "))))
}
