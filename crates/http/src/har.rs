//! HAR 1.2 (HTTP Archive): pages from what a browser recorded, and a page load
//! written as one.

use crate::page::{Page, PageError};
use std::path::Path;

/// The page that the HAR text `text` records; `name` is used in messages.
///
/// # Errors
/// [`PageError`] naming entry index and field.
pub fn read(name: &str, text: &str) -> Result<Page, PageError> {
    let _ = text;
    Err(PageError::new(format!("{name}: not a HAR")))
}

/// Reads the HAR file at `path`.
///
/// # Errors
/// [`PageError`] when it cannot be read or is not a HAR.
pub fn load(path: &Path) -> Result<Page, PageError> {
    let text =
        std::fs::read_to_string(path).map_err(|why| PageError::new(format!("{}: {why}", path.display())))?;
    read(&path.display().to_string(), &text)
}
