//! A page from a site on disk: `index.html`, then what it embeds.

use super::{Page, PageError};
use std::path::Path;

/// Reads the site in `directory`.
///
/// # Errors
/// [`PageError`] when there is no `index.html` or a file cannot be read.
pub fn load(directory: &Path) -> Result<Page, PageError> {
    Err(PageError::new(format!("'{}': no index.html in it", directory.display())))
}
