//! The sizes of HTTP request and response heads, if a plan sets them.
//!
//! If the plan does not set the size of a head, the head has the size recorded in the page, or a default such as
//! [`REQUEST_HEAD`](anabranch_http::page::REQUEST_HEAD). An additional header field pads a head to its size. The
//! necessary fields determine the minimum size.

use super::concrete::Concrete;
use super::error::PlanError;
use anabranch_base::Bytes;
use anabranch_http::fetch::request;
use anabranch_http::page::{MAX_HEAD, Object, Page};
use anabranch_http::serve;

/// The sizes of the HTTP heads of all objects, if the plan sets them.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Heads {
    /// The size of each request head in bytes, including the empty line at its end.
    pub request: Option<u64>,
    /// The size of each response head in bytes, including the empty line at its end.
    pub response: Option<u64>,
}

impl Heads {
    /// Interprets the keys `request-head` and `response-head` of `concrete`.
    ///
    /// # Errors
    /// [`PlanError`] that names the flag or field.
    pub fn interpret(concrete: &Concrete) -> Result<Self, PlanError> {
        let size = |name: &str| {
            let Some(setting) = concrete.setting(name) else { return Ok(None) };
            if let Some(other) = ["bulk", "messages"].iter().find_map(|name| concrete.setting(name)) {
                let what = format!("goes with a page or objects; {} has no heads", other.place);
                return Err(PlanError::at(&setting.place, what));
            }
            let size: Bytes = setting.value.parse().map_err(|error| PlanError::at(&setting.place, error))?;
            if size.0 > MAX_HEAD {
                let what = format!("'{}': more than {}", setting.value, Bytes(MAX_HEAD));
                return Err(PlanError::at(&setting.place, what));
            }
            Ok(Some(size.0))
        };
        Ok(Self { request: size("request-head")?, response: size("response-head")? })
    }

    /// Returns a copy of `page` in which the request and response heads of all objects have these sizes. Sizes that are
    /// `None` stay as they are in `page`.
    #[must_use]
    pub fn applied(self, page: &Page) -> Page {
        let mut page = page.clone();
        for object in &mut page.objects {
            object.request_head = self.request.unwrap_or(object.request_head);
            object.response_head = self.response.unwrap_or(object.response_head);
        }
        page
    }

    /// Rejects head sizes that are too small for the header fields that an object needs. If `closes` is true, the last
    /// request of a connection and its response also have the field `Connection: close`.
    ///
    /// # Errors
    /// The setting that is too small, and a line with the object and the minimum head size that it needs.
    pub fn check(self, page: &Page, closes: bool) -> Result<(), (&'static str, String)> {
        let host = |object: &Object| page.hosts.get(object.host).map_or("server", String::as_str);
        let request = |object: &Object| request::min_head_size(&object.name, host(object), closes);
        let response = |object: &Object| serve::min_head_size(object.body, closes);
        fits("request-head", self.request, page, closes, request)?;
        fits("response-head", self.response, page, closes, response)
    }

    /// Returns the text that states the head sizes in the heading of a table of results; empty if the plan sets none.
    #[must_use]
    pub fn describe(self) -> String {
        let said = |kind: &str, size: Option<u64>| {
            size.map_or(String::new(), |size| format!(", {kind} heads of {size} B"))
        };
        said("request", self.request) + &said("response", self.response)
    }
}

fn fits(
    name: &'static str,
    size: Option<u64>,
    page: &Page,
    closes: bool,
    least: impl Fn(&Object) -> usize,
) -> Result<(), (&'static str, String)> {
    let Some(size) = size else { return Ok(()) };
    let needs =
        page.objects.iter().map(|object| (least(object) as u64, object)).max_by_key(|(least, _)| *least);
    match needs {
        Some((least, object)) if least > size => {
            let close = if closes { " with Connection: close" } else { "" };
            Err((name, format!("{}: that of {} has at least {least}B{close}", Bytes(size), object.name)))
        }
        _ => Ok(()),
    }
}
