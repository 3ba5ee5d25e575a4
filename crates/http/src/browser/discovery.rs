//! Finds the objects of a page as its documents, style sheets and scripts arrive.
//!
//! The preload scanner reads all bytes that have arrived, also those behind a script that the parser waits for (blink
//! `html_preload_scanner.cc`, `html_document_parser.cc`). The parser waits for each blocking script, and a script waits
//! for the style sheets before it (HTML §4.12.1.1, "has no style sheet that is blocking scripts"). The body begins when
//! the parser reaches it (`Document::WillInsertBody`). Fonts and backgrounds are fetched when the document is rendered,
//! which waits for the style sheets of the head (`Document::HaveRenderBlockingResourcesLoaded`).

use super::layout::{Found, Layout, Resource};
use crate::page::Page;
use crate::page::reference::{ResourceType, ScriptMode};
use std::collections::VecDeque;

/// Finds the objects of a page as a browser does, while the page arrives.
#[derive(Debug)]
pub struct Discovery {
    layout: Layout,
    /// For each object, the objects whose requests it causes.
    caused: Vec<Caused>,
    received: Vec<u64>,
    finished: Vec<bool>,
    is_found: Vec<bool>,
    found: VecDeque<usize>,
    parser: Parser,
}

/// The objects whose requests one object causes, by the way in which the browser finds them.
#[derive(Clone, Default, Debug)]
struct Caused {
    /// The objects that the text of this object names, in ascending order of their offsets.
    in_text: Vec<(u64, usize)>,
    /// The number of objects of `in_text` that the browser has found so far.
    scanned: usize,
    /// The objects that this script inserts when it is executed.
    by_script: Vec<usize>,
    /// The objects that are fetched only when the document is rendered.
    by_style: Vec<usize>,
}

/// The state of the HTML parser of the document.
#[derive(Default, Debug)]
struct Parser {
    /// The offsets at which the parser may have to wait, in ascending order, each with an object. The object is a
    /// blocking script, a style sheet, or requested by a script in the text of the document.
    stops: Vec<(u64, usize)>,
    /// The number of entries of `stops` that the parser has passed.
    passed: usize,
    /// The style sheets that the parser has passed and that have not arrived.
    awaited_sheets: Vec<usize>,
    /// The style sheets in the head of the document that have not arrived.
    head_sheets: Vec<usize>,
    /// The scripts that are executed when the document has been parsed, in their order.
    deferred: VecDeque<usize>,
    body_begun: bool,
    /// Whether the document has been rendered.
    rendered: bool,
}

impl Discovery {
    /// Returns the initial state: only the objects that are requested at the start have been found.
    pub(super) fn new(layout: Layout) -> Self {
        let count = layout.resources.len();
        let mut discovery = Self {
            layout,
            caused: Vec::with_capacity(count),
            received: Vec::with_capacity(count),
            finished: Vec::with_capacity(count),
            is_found: Vec::with_capacity(count),
            found: VecDeque::new(),
            parser: Parser::default(),
        };
        (0..count).for_each(|index| discovery.add(index));
        discovery.caused.iter_mut().for_each(|caused| caused.in_text.sort_unstable());
        discovery.parser.stops.sort_unstable();
        discovery
    }

    /// Adds the next object of the layout, and notes how it is found.
    fn add(&mut self, index: usize) {
        self.caused.push(Caused::default());
        self.received.push(0);
        self.finished.push(false);
        self.is_found.push(false);
        let resource = &self.layout.resources[index];
        match resource.found {
            Found::AtStart => self.find(index),
            Found::ByInlineScript(offset) => self.parser.stops.push((offset, index)),
            Found::ByScript(by) => self.caused[by].by_script.push(index),
            Found::ByStyle(by) => self.caused[by].by_style.push(index),
            Found::InText { by, offset, .. } => {
                self.caused[by].in_text.push((offset, index));
                // blink `preload_helper.cc`: a `<link>` that preloads an object neither executes nor applies it.
                if let Some(offset) = resource.parsed_at {
                    self.parser.add(index, resource, offset, self.layout.body_start);
                }
            }
        }
    }

    /// Adds the object `index` of a page that is being loaded, or updates a preloaded object that the document has
    /// named again. The objects come in ascending order of their offsets.
    pub(super) fn update(&mut self, page: &Page, index: usize) {
        self.layout.update(page, index);
        let resource = &self.layout.resources[index];
        if index == self.caused.len() {
            self.add(index);
        } else if let Some(offset) = resource.parsed_at {
            self.parser.add(index, resource, offset, self.layout.body_start);
        }
    }

    /// Sets the offset at which the body of the document begins. Only for a document that is still being loaded.
    pub(super) const fn set_body_start(&mut self, offset: u64) {
        self.layout.body_start = offset;
    }

    pub(super) fn resource(&self, object: usize) -> &Resource {
        &self.layout.resources[object]
    }

    pub(super) const fn document(&self) -> usize {
        self.layout.document
    }

    pub(super) const fn is_document(&self, object: usize) -> bool {
        object == self.layout.document
    }

    /// Whether `object` is requested by the browser itself and not by the document.
    pub(super) fn is_navigation(&self, object: usize) -> bool {
        self.layout.navigations.contains(&object)
    }

    /// Whether the document has been rendered.
    pub(super) const fn rendered(&self) -> bool {
        self.parser.rendered
    }

    /// Returns the images that are in the visible part of the page.
    pub(super) fn visible(&self) -> impl Iterator<Item = usize> {
        let resources = self.layout.resources.iter().enumerate();
        resources.filter(|(_, resource)| resource.visible).map(|(index, _)| index)
    }

    /// Whether the parser has reached the body of the document.
    pub(super) const fn body_begun(&self) -> bool {
        self.parser.body_begun
    }

    pub(super) fn next_found(&mut self) -> Option<usize> {
        self.found.pop_front()
    }

    pub(super) fn delivered(&mut self, object: usize, bytes: u64) {
        self.received[object] = self.received[object].max(bytes);
        self.scan(object);
        if object == self.layout.document {
            self.parse();
        }
    }

    pub(super) fn finished(&mut self, object: usize) {
        if std::mem::replace(&mut self.finished[object], true) {
            return;
        }
        self.received[object] = u64::MAX;
        self.scan(object);
        let parser = &mut self.parser;
        parser.awaited_sheets.retain(|&sheet| sheet != object);
        parser.head_sheets.retain(|&sheet| sheet != object);
        let resource = &self.layout.resources[object];
        let is_parsers = matches!(resource.found, Found::InText { by_document: true, .. });
        // A script is executed as soon as it has arrived if it is asynchronous, or if another script inserted it.
        let is_async = matches!(resource.mode, ScriptMode::Async | ScriptMode::AsyncModule);
        if resource.kind == ResourceType::Script && (is_async || !is_parsers) {
            self.execute(object);
        }
        self.parse();
        if self.parser.rendered {
            self.style(object);
        }
    }

    /// Finds the objects to which the delivered text of `object` refers.
    fn scan(&mut self, object: usize) {
        let caused = &mut self.caused[object];
        let from = caused.scanned;
        let named = caused.in_text[from..].iter().take_while(|(offset, _)| *offset <= self.received[object]);
        let named: Vec<usize> = named.map(|&(_, index)| index).collect();
        caused.scanned += named.len();
        named.into_iter().for_each(|index| self.find(index));
    }

    /// Advances the HTML parser until it has to wait for a script or style sheet.
    fn parse(&mut self) {
        let received = self.received[self.layout.document];
        while let Some(&(offset, index)) = self.parser.stops.get(self.parser.passed) {
            if offset > self.layout.body_start && received >= self.layout.body_start {
                self.begin_body();
            }
            if offset > received {
                break;
            }
            if matches!(self.layout.resources[index].found, Found::ByInlineScript(_)) {
                if !self.parser.awaited_sheets.is_empty() {
                    return;
                }
                self.find(index);
            } else if self.layout.resources[index].kind == ResourceType::Stylesheet {
                if !self.finished[index] {
                    self.parser.awaited_sheets.push(index);
                }
            } else if self.finished[index] && self.parser.awaited_sheets.is_empty() {
                self.execute(index);
            } else {
                return;
            }
            self.parser.passed += 1;
        }
        if received >= self.layout.body_start {
            self.begin_body();
        }
        if self.finished[self.layout.document] && self.parser.passed == self.parser.stops.len() {
            while let Some(&script) = self.parser.deferred.front() {
                if !self.finished[script] || !self.parser.awaited_sheets.is_empty() {
                    break;
                }
                self.parser.deferred.pop_front();
                self.execute(script);
            }
        }
        if self.parser.body_begun && self.parser.head_sheets.is_empty() && !self.parser.rendered {
            self.parser.rendered = true;
            (0..self.layout.resources.len())
                .filter(|&i| self.finished[i])
                .collect::<Vec<_>>()
                .into_iter()
                .for_each(|sheet| self.style(sheet));
        }
    }

    fn begin_body(&mut self) {
        self.parser.body_begun = true;
    }

    /// Finds the objects that the script `object` inserts when it is executed.
    fn execute(&mut self, object: usize) {
        for index in std::mem::take(&mut self.caused[object].by_script) {
            self.find(index);
        }
    }

    /// Finds the fonts and images that the style sheet or document `object` needs when it is rendered.
    fn style(&mut self, object: usize) {
        for index in std::mem::take(&mut self.caused[object].by_style) {
            self.find(index);
        }
    }

    fn find(&mut self, object: usize) {
        if !std::mem::replace(&mut self.is_found[object], true) {
            self.found.push_back(object);
        }
    }
}

impl Parser {
    /// Adds to the parser a resource to which the document refers at `offset`.
    fn add(&mut self, index: usize, resource: &Resource, offset: u64, body_start: u64) {
        match (resource.kind, resource.mode) {
            (ResourceType::Stylesheet, _) if !resource.lazy => {
                self.stops.push((offset, index));
                if offset <= body_start {
                    self.head_sheets.push(index);
                }
            }
            (ResourceType::Script, ScriptMode::Blocking) => self.stops.push((offset, index)),
            (ResourceType::Script, ScriptMode::Defer | ScriptMode::Module) => self.deferred.push_back(index),
            _ => {}
        }
    }
}
