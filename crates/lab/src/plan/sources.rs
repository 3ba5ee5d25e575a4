//! The pages and traces that a plan names. Each file is read once, when the plan is interpreted. Every point that uses
//! the file gets this content, even if the file has changed since.

use super::error::PlanError;
use super::file;
use anabranch_http::page::Page;
use anabranch_link::trace::Trace;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The pages and traces that a plan names and that have been read so far.
#[derive(Debug, Default)]
pub struct Sources {
    pages: BTreeMap<String, Arc<Page>>,
    traces: BTreeMap<String, Trace>,
}

impl Sources {
    /// Returns the page with this name. Calls `read` if the page has not been read yet.
    pub(super) fn page(
        &mut self,
        name: String,
        read: impl FnOnce() -> Result<Page, PlanError>,
    ) -> Result<Arc<Page>, PlanError> {
        if let Some(page) = self.pages.get(&name) {
            return Ok(Arc::clone(page));
        }
        let page = Arc::new(read()?);
        self.pages.insert(name, Arc::clone(&page));
        Ok(page)
    }

    /// Returns the trace with this name: a trace that comes with the program, or the content of the file with this
    /// name.
    pub(super) fn trace(&mut self, name: &str) -> Result<Trace, String> {
        if let Some(trace) = self.traces.get(name) {
            return Ok(trace.clone());
        }
        let shipped = anabranch_link::trace::SHIPPED.iter().find(|(known, _)| *known == name);
        let trace = match shipped {
            Some((_, text)) => Trace::parse(text),
            None => Trace::parse(&file::read(name, file::MAX_TRACE)?),
        };
        let trace = trace.map_err(|error| error.to_string())?;
        self.traces.insert(name.to_owned(), trace.clone());
        Ok(trace)
    }
}
