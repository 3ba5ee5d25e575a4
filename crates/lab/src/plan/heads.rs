//! The sizes of request and response heads, where a plan says them.
//!
//! Without them each object of a page has its own: those that a recording has,
//! or [`REQUEST_HEAD`](anabranch_http::page::REQUEST_HEAD) and its like. A head is
//! filled up to its size by a field; what has to be in it sets the least size.

use super::concrete::Concrete;
use super::error::PlanError;
use anabranch_base::Bytes;
use anabranch_http::fetch::request;
use anabranch_http::page::{MAX_HEAD, Object, Page};
use anabranch_http::serve;

/// What is said of the heads of all objects.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Heads {
    /// Bytes of each request, its empty line included.
    pub request: Option<u64>,
    /// Bytes of each response up to and with its empty line.
    pub response: Option<u64>,
}

impl Heads {
    /// What `concrete` says.
    ///
    /// # Errors
    /// [`PlanError`] naming the flag or field.
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

    /// The page with these heads.
    #[must_use]
    pub fn applied(self, page: &Page) -> Page {
        let mut page = page.clone();
        for object in &mut page.objects {
            object.request_head = self.request.unwrap_or(object.request_head);
            object.response_head = self.response.unwrap_or(object.response_head);
        }
        page
    }

    /// Refuses sizes that not even the necessary fields of some object fit in; on connections that end, the last
    /// request and its response say so.
    ///
    /// # Errors
    /// The key, and a line with the object and its least size.
    pub fn check(self, page: &Page, closes: bool) -> Result<(), (&'static str, String)> {
        let host = |object: &Object| page.hosts.get(object.host).map_or("server", String::as_str);
        let request = |object: &Object| request::least_head(&object.name, host(object), closes);
        let response = |object: &Object| serve::least_head(object.body, closes);
        fits("request-head", self.request, page, closes, request)?;
        fits("response-head", self.response, page, closes, response)
    }

    /// What a heading says of them.
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
