//! Finds the addresses that a document embeds. A browser fetches these automatically when it displays an HTML or CSS
//! file.
//!
//! Scripts are not run, so their fetches are not found. If an image has several candidates (attribute `srcset`, element
//! `<picture>`), the one that Chromium would choose is taken. The modules `srcset`, `media` and `length` determine that
//! candidate. The viewport has 1280 by 720 CSS pixels, and one device pixel per CSS pixel. Images and frames with
//! `loading=lazy` are fetched if the document places them near the viewport, which the module `flow` estimates.

mod flow;
mod length;
mod media;
mod srcset;

use super::reference::{FetchPriority, Reference, ResourceType, ScriptMode};
use flow::{Flow, LAZY_FRAME_MARGIN, LAZY_IMAGE_MARGIN};
use html5gum::{DefaultEmitter, Token, Tokenizer};

/// An HTML start tag with its position in the document.
type StartTag = html5gum::StartTag<usize>;

/// The addresses that an HTML document embeds.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Embeds {
    /// The value of the first `<base href>`. Relative entries of `addresses` are resolved against it.
    pub base: Option<String>,
    /// The addresses as written, in the order of the document, including repetitions.
    pub addresses: Vec<String>,
    /// For each address, how the document refers to it. Offsets are offsets in the document as given.
    pub references: Vec<Reference>,
    /// The offset just after the `<body>` tag, if there is one.
    pub body_start: Option<u64>,
    /// The addresses of lazy images and frames that are not fetched, because they are too far below the viewport or not
    /// displayed.
    pub deferred: Vec<String>,
}

impl Embeds {
    /// Returns each address, with how the document refers to it. For a style sheet, the references are unknown.
    pub fn with_references(self) -> impl Iterator<Item = (String, Reference)> {
        self.addresses
            .into_iter()
            .zip(self.references.into_iter().chain(std::iter::repeat_with(Reference::default)))
    }
}

/// Returns the addresses that the HTML document `html` embeds. Never fails, because any input is valid HTML.
#[must_use]
pub fn in_html(html: &[u8]) -> Embeds {
    let mut emitter = DefaultEmitter::<usize>::new_with_span();
    emitter.naively_switch_states(true);
    let mut document = Document::default();
    for token in Tokenizer::new_with_emitter(html, emitter) {
        let Ok(token) = token;
        match token {
            Token::StartTag(tag) => {
                let name = tag.name.to_ascii_lowercase();
                document.begin(&name, &tag);
                document.refer(tag.span.end, &name, Some(&tag));
            }
            Token::EndTag(tag) => document.end(&tag.name.to_ascii_lowercase()),
            Token::String(text) => {
                document.text(&text);
                document.refer(text.span.end, b"style", None);
            }
            _ => {}
        }
    }
    document.found
}

/// The state of parsing a document from its beginning to the current tag.
#[derive(Default)]
struct Document {
    found: Embeds,
    flow: Flow,
    /// The number of open elements whose content a browser with scripts ignores, for example `<noscript>`.
    inert: usize,
    in_style: bool,
    /// Whether the parser is in an element whose text is not displayed, for example a script or a title.
    in_unseen: bool,
    media: Option<Media>,
    picture: Option<Picture>,
}

/// An open `<video>` or `<audio>` element.
struct Media {
    has_source: bool,
}

/// An open `<picture>` element, and the first of its sources that the browser can use.
#[derive(Default)]
struct Picture {
    chosen: Option<Source>,
}

/// A source of a picture: its candidates (`srcset`), and the width of the image (`sizes`).
struct Source {
    srcset: String,
    sizes: Option<String>,
}

impl Document {
    fn begin(&mut self, name: &[u8], tag: &StartTag) {
        if matches!(name, b"noscript" | b"template") && !tag.self_closing {
            self.inert += 1;
            return;
        }
        if self.inert > 0 {
            return;
        }
        let style = text(tag, b"style");
        let attribute =
            |key: &[u8]| tag.attributes.get(key).map(|value| String::from_utf8_lossy(value).into_owned());
        self.flow.begin(name, style.as_deref(), attribute);
        match name {
            b"style" => self.in_style = true,
            b"script" | b"title" | b"iframe" if !tag.self_closing => self.in_unseen = true,
            b"base" if self.found.base.is_none() => self.found.base = text(tag, b"href"),
            b"picture" => self.picture = Some(Picture::default()),
            b"video" | b"audio" => self.media = Some(Media { has_source: text(tag, b"src").is_some() }),
            _ => {}
        }
        match name {
            b"source" => self.source(tag),
            b"img" => self.image(tag, style.as_deref()),
            b"iframe" => {
                let address = text(tag, b"src");
                self.placed(address, tag, style.as_deref(), (300.0, 150.0), LAZY_FRAME_MARGIN);
            }
            _ => of_tag(name, tag, &mut self.found.addresses),
        }
        if let Some(style) = style {
            self.found.addresses.extend(in_css(style.as_bytes()));
        }
    }

    /// Records how the document refers to the addresses that the last token added. The token ends at `end`.
    fn refer(&mut self, end: usize, name: &[u8], tag: Option<&StartTag>) {
        if name == b"body" && tag.is_some() {
            self.found.body_start.get_or_insert(end as u64);
        }
        let reference = Reference {
            offset: Some(end as u64),
            in_head: Some(self.found.body_start.is_none()),
            ..tag.map(|tag| by_attributes(name, tag)).unwrap_or_default()
        };
        self.found.references.resize(self.found.addresses.len(), reference);
    }

    fn end(&mut self, name: &[u8]) {
        match name {
            b"noscript" | b"template" => self.inert = self.inert.saturating_sub(1),
            b"style" => self.in_style = false,
            b"script" | b"title" | b"iframe" => self.in_unseen = false,
            b"video" | b"audio" => self.media = None,
            b"picture" => self.picture = None,
            _ => {}
        }
        if self.inert == 0 {
            self.flow.end(name);
        }
    }

    fn text(&mut self, text: &[u8]) {
        if self.inert > 0 {
        } else if self.in_style {
            self.found.addresses.extend(in_css(text));
        } else if !self.in_unseen {
            self.flow.text(text);
        }
    }

    /// Handles a `<source>` element. An open video uses its first source. An open picture uses the first source that
    /// the browser can use.
    fn source(&mut self, tag: &StartTag) {
        if let Some(media) = &mut self.media {
            if !media.has_source {
                media.has_source = true;
                self.found.addresses.extend(text(tag, b"src"));
            }
            return;
        }
        if !self.flow.is_inside(b"picture") {
            return;
        }
        let Some(picture) = self.picture.as_mut().filter(|picture| picture.chosen.is_none()) else { return };
        let Some(srcset) = text(tag, b"srcset") else { return };
        let sizes = text(tag, b"sizes");
        let is_usable = srcset::is_usable(text(tag, b"type").as_deref(), text(tag, b"media").as_deref());
        if is_usable && srcset::choose(None, Some(&srcset), sizes.as_deref(), None).is_some() {
            picture.chosen = Some(Source { srcset, sizes });
        }
    }

    fn image(&mut self, tag: &StartTag, style: Option<&str>) {
        // The sources of a picture apply only to an image that is a direct child of the picture.
        let picture = self.picture.as_mut().filter(|_| self.flow.is_inside(b"picture"));
        let source = picture.and_then(|picture| picture.chosen.take());
        let (width, _) = flow::size(text(tag, b"width").as_deref(), None, style);
        // The width of a lazy image is known only after a layout, which this module does not compute. Instead, the
        // width attribute or the width of the viewport is used.
        let auto = (is_lazy(tag) && width > 0.0).then_some(width);
        let address = match source {
            Some(Source { srcset, sizes }) => srcset::choose(None, Some(&srcset), sizes.as_deref(), auto),
            None => {
                let [src, srcset, sizes] = [&b"src"[..], b"srcset", b"sizes"].map(|key| text(tag, key));
                srcset::choose(src.as_deref(), srcset.as_deref(), sizes.as_deref(), auto)
            }
        };
        self.placed(address, tag, style, (0.0, 0.0), LAZY_IMAGE_MARGIN);
    }

    /// Adds the box of an element to the layout, unless the element is hidden. Adds `address` to the addresses that are
    /// fetched. A lazy element may be hidden or too far below the viewport. Its `address` is then added to the deferred
    /// addresses instead. `size` is used if the element has no size attributes.
    fn placed(
        &mut self,
        address: Option<String>,
        tag: &StartTag,
        style: Option<&str>,
        size: (f64, f64),
        margin: f64,
    ) {
        let (width, height) =
            flow::size(text(tag, b"width").as_deref(), text(tag, b"height").as_deref(), style);
        let or = |given: f64, default: f64| if given > 0.0 { given } else { default };
        let is_hidden = self.flow.is_hidden()
            || tag.attributes.contains_key(&b"hidden"[..])
            || style.is_some_and(flow::is_not_displayed);
        let is_fetched = if is_hidden {
            !is_lazy(tag)
        } else {
            let top = self.flow.place_box(or(width, size.0), or(height, size.1));
            !is_lazy(tag) || flow::is_near(top, margin)
        };
        let list = if is_fetched { &mut self.found.addresses } else { &mut self.found.deferred };
        list.extend(address);
    }
}

/// Returns how the first start tag of `html` refers to its address, and the offset just after that tag. Only attributes
/// of the tag are considered.
#[must_use]
pub fn in_tag(html: &str) -> Option<(Reference, usize)> {
    let tokens = Tokenizer::new_with_emitter(html.as_bytes(), DefaultEmitter::<usize>::new_with_span());
    let tag = tokens.into_iter().find_map(|token| match token {
        Ok(Token::StartTag(tag)) => Some(tag),
        _ => None,
    })?;
    Some((by_attributes(&tag.name.to_ascii_lowercase(), &tag), tag.span.end))
}

/// Returns how a tag with this name refers to its address, without the position of the tag.
fn by_attributes(name: &[u8], tag: &StartTag) -> Reference {
    let has = |key: &[u8]| tag.attributes.contains_key(key);
    let is = |key: &[u8], value: &str| {
        let given = text(tag, key).unwrap_or_default();
        given.split_ascii_whitespace().any(|one| one.eq_ignore_ascii_case(value))
    };
    let kind = match name {
        b"script" => Some(ResourceType::Script),
        b"link" if is(b"rel", "stylesheet") => Some(ResourceType::Stylesheet),
        b"img" | b"input" | b"image" | b"body" | b"table" | b"td" | b"th" => Some(ResourceType::Image),
        b"iframe" | b"frame" => Some(ResourceType::Document),
        _ => None,
    };
    let is_link = name == b"link" && kind.is_none();
    let script = match (has(b"async"), is(b"type", "module")) {
        _ if is_link && is(b"rel", "modulepreload") => Some(ScriptMode::AsyncModule),
        _ if kind != Some(ResourceType::Script) => None,
        (true, true) => Some(ScriptMode::AsyncModule),
        (false, true) => Some(ScriptMode::Module),
        (true, false) => Some(ScriptMode::Async),
        (false, false) if has(b"defer") => Some(ScriptMode::Defer),
        (false, false) => Some(ScriptMode::Blocking),
    };
    let lazy = is(b"loading", "lazy") || (kind == Some(ResourceType::Stylesheet) && is(b"media", "print"));
    let preload = is_link && ["preload", "modulepreload", "prefetch"].iter().any(|rel| is(b"rel", rel));
    let fetch_priority = match () {
        () if is(b"fetchpriority", "high") => Some(FetchPriority::High),
        () if is(b"fetchpriority", "low") => Some(FetchPriority::Low),
        () => None,
    };
    Reference { kind, script, lazy, preload, fetch_priority, ..Reference::default() }
}

fn is_lazy(tag: &StartTag) -> bool {
    text(tag, b"loading").is_some_and(|loading| loading.eq_ignore_ascii_case("lazy"))
}

fn of_tag(name: &[u8], tag: &StartTag, found: &mut Vec<String>) {
    let attribute = |key: &[u8]| text(tag, key);
    match name {
        b"script" | b"frame" | b"embed" | b"track" | b"audio" => found.extend(attribute(b"src")),
        b"video" => found.extend([attribute(b"poster"), attribute(b"src")].into_iter().flatten()),
        b"input" if attribute(b"type").is_some_and(|kind| kind.eq_ignore_ascii_case("image")) => {
            found.extend(attribute(b"src"));
        }
        b"object" => found.extend(attribute(b"data")),
        b"image" | b"use" => found.extend(attribute(b"href").or_else(|| attribute(b"xlink:href"))),
        b"link" => found.extend(link(tag)),
        b"body" | b"table" | b"td" | b"th" => found.extend(attribute(b"background")),
        _ => {}
    }
}

/// Returns the address that a `<link>` element fetches, if any.
fn link(tag: &StartTag) -> Option<String> {
    let rel = text(tag, b"rel").unwrap_or_default().to_ascii_lowercase();
    let has = |word: &str| rel.split_ascii_whitespace().any(|one| one == word);
    let fetched = ["stylesheet", "icon", "modulepreload", "manifest"];
    if has("preload") && !fetched.iter().any(|word| has(word)) {
        // A preload is fetched only if its medium and its type suit the browser. A style sheet is fetched even for
        // another medium.
        let is_image = text(tag, b"as").is_some_and(|kind| kind.eq_ignore_ascii_case("image"));
        let kind = text(tag, b"type").filter(|_| is_image);
        if !srcset::is_usable(kind.as_deref(), text(tag, b"media").as_deref()) {
            return None;
        }
        let [href, srcset, sizes] = [&b"href"[..], b"imagesrcset", b"imagesizes"].map(|key| text(tag, key));
        return srcset::choose(
            href.as_deref(),
            srcset.filter(|_| is_image).as_deref(),
            sizes.as_deref(),
            None,
        );
    }
    text(tag, b"href").filter(|_| fetched.iter().any(|word| has(word)))
}

/// Returns the value of the attribute `key` without surrounding white space; `None` if it is absent or empty.
fn text(tag: &StartTag, key: &[u8]) -> Option<String> {
    let value = String::from_utf8_lossy(tag.attributes.get(key)?).trim().to_owned();
    (!value.is_empty()).then_some(value)
}

/// Returns the addresses in `url(…)` and `@import "…"` of the style sheet `css`. Of the options of an `image-set(…)`,
/// only the one that Chromium loads is returned.
#[must_use]
pub fn in_css(css: &[u8]) -> Vec<String> {
    let css = without_comments(&String::from_utf8_lossy(css));
    let lower = css.to_ascii_lowercase();
    let mut found = Vec::new();
    let mut at = 0;
    let (mut url, mut import) = (WordSearch::of("url("), WordSearch::of("@import"));
    let mut set = WordSearch::of("image-set(");
    loop {
        if let Some(start) = set.after(&lower, at)
            && [url.after(&lower, at), import.after(&lower, at)].iter().flatten().all(|other| start < *other)
        {
            let Some((options, end)) = arguments(&css[start..]) else { break };
            found.extend(image_set(&options));
            at = start + end;
            continue;
        }
        // `start` is the position after the next `url(` or `@import`, and `function` is true for `url(`.
        let (start, function) = match (url.after(&lower, at), import.after(&lower, at)) {
            (Some(url), Some(import)) if import < url => (import, false),
            (Some(url), _) => (url, true),
            (None, Some(import)) => (import, false),
            (None, None) => break,
        };
        let rest = &css[start..];
        let rest = rest.trim_start();
        let (address, used) = match rest.chars().next() {
            Some(quote @ ('"' | '\'')) => match rest[1..].find(quote) {
                Some(end) => (&rest[1..=end], end + 2),
                None => break,
            },
            // An address without quotes is allowed only inside `url(…)`.
            Some(_) if function => match rest.find(')') {
                Some(end) => (rest[..end].trim(), end),
                None => break,
            },
            _ => ("", 0),
        };
        if !address.is_empty() {
            found.push(address.to_owned());
        }
        at = css.len() - rest.len() + used;
    }
    found
}

/// Splits a function's arguments at commas. `text` begins after the opening parenthesis. Also returns the position of
/// the closing parenthesis.
fn arguments(text: &str) -> Option<(Vec<&str>, usize)> {
    let (mut depth, mut quote, mut start) = (0_usize, None, 0);
    let mut found = Vec::new();
    for (at, letter) in text.char_indices() {
        match (quote, letter) {
            (Some(open), letter) if letter == open => quote = None,
            (Some(_), _) => {}
            (None, '"' | '\'') => quote = Some(letter),
            (None, '(') => depth += 1,
            (None, ',' | ')') if depth == 0 => {
                found.push(&text[start..at]);
                if letter == ')' {
                    return Some((found, at));
                }
                start = at + 1;
            }
            (None, ')') => depth -= 1,
            (None, _) => {}
        }
    }
    None
}

/// Returns the address of the option that Chromium loads from an `image-set()` (CSS Images 4 §2.3). An option is an
/// image with an optional resolution and type, in any order. The image may be a gradient, which has no address.
fn image_set(options: &[&str]) -> Option<String> {
    let candidate = |option: &&str| {
        let option = option.trim();
        let (address, rest) = match option.chars().next()? {
            quote @ ('"' | '\'') => {
                option[1..].split_once(quote).map(|(address, rest)| (address.to_owned(), rest))?
            }
            _ => {
                let start = option.find('(')? + 1;
                let (_, end) = arguments(&option[start..])?;
                (in_css(option.as_bytes()).into_iter().next().unwrap_or_default(), &option[start + end + 1..])
            }
        };
        let (mut kind, mut density) = (None, 1.0);
        for word in rest.to_ascii_lowercase().split_ascii_whitespace() {
            match word.strip_prefix("type(") {
                Some(text) => kind = Some(text.trim_matches(['"', '\'', ')']).to_owned()),
                None => density = media::resolution(word)?,
            }
        }
        srcset::is_usable(kind.as_deref(), None).then_some((density, address))
    };
    srcset::select(options.iter().filter_map(candidate).collect()).filter(|address| !address.is_empty())
}

/// Searches a text for one word, from the start to the end. No part of the text is searched twice.
struct WordSearch {
    word: &'static str,
    /// The position of the next occurrence of the word; `None` if the rest of the text does not have the word.
    next: Option<usize>,
    begun: bool,
}

impl WordSearch {
    const fn of(word: &'static str) -> Self {
        Self { word, next: None, begun: false }
    }

    /// Searches `text` from byte `at` on, and returns the position after the first occurrence of the word. `at` must
    /// not be lower than in the previous call.
    fn after(&mut self, text: &str, at: usize) -> Option<usize> {
        if !self.begun || self.next.is_some_and(|next| next < at) {
            self.begun = true;
            self.next = text[at..].find(self.word).map(|i| at + i);
        }
        self.next.map(|next| next + self.word.len())
    }
}

fn without_comments(css: &str) -> String {
    let mut kept = String::with_capacity(css.len());
    let mut rest = css;
    while let Some(start) = rest.find("/*") {
        kept.push_str(&rest[..start]);
        // A string may contain `/*`, for example in the address `/*.png`. It is treated as the beginning of a comment,
        // because such strings are rare.
        rest = rest[start + 2..].find("*/").map_or("", |end| &rest[start + 2 + end + 2..]);
    }
    kept.push_str(rest);
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    fn html(text: &str) -> Vec<String> {
        in_html(text.as_bytes()).addresses
    }

    #[test]
    fn every_element_that_fetches_is_seen_in_order() {
        let found = html(
            r#"<!doctype html><LINK REL="shortcut ICON" href=a><link rel=stylesheet href='b'><link rel=canonical href=no>
            <script src=c></script><script>document.write('<img src=no>')</script>
            <body background=d><img src=" e "><img srcset="f 1x, no 2x"><picture><source srcset=g><img src=no></picture>
            <iframe src=h></iframe><video poster=i><source src=j><source src=no></video><audio src=k><source src=no></audio>
            <input type=IMAGE src=l><input src=no><object data=m></object><embed src=n><!-- <img src=no> -->
            <p style="background: url(o)"><a href=no>x</a><img><img src="">"#,
        );
        assert_eq!(found.concat(), "abcdefghijklmno");
    }

    #[test]
    fn a_picture_shows_its_first_source_that_can_be_used() {
        let picture = |sources: &str| {
            html(&format!("<picture>{sources}<img src=img srcset='two 2x'></picture>")).concat()
        };
        assert_eq!(picture("<source srcset=webp type=image/webp>"), "webp");
        assert_eq!(
            picture("<source srcset=heic type=image/heic><source srcset=avif type=image/avif>"),
            "avif"
        );
        assert_eq!(
            picture("<source srcset=small media='(max-width: 600px)'><source srcset=x media=print>"),
            "img"
        );
        assert_eq!(picture("<source src=no><source srcset=''><source srcset='no 1y'>"), "img");
        assert_eq!(picture("<source srcset='s 320w, l 1280w' sizes='(min-width: 9px) 300px'>"), "s");
        assert_eq!(picture("<source srcset='a 2x, b 1x'><source srcset=no>"), "b");
        // The sources of one picture do not apply to the next image. Sources without an image after them have no
        // effect.
        assert_eq!(html("<picture><source srcset=no></picture><img src=a>").concat(), "a");
        assert_eq!(
            html("<source srcset=no><img src=a><picture><img src=b><source srcset=no></picture>").concat(),
            "ab"
        );
        assert_eq!(html("<img src=lo srcset='one 1x, two 2x'>").concat(), "one");
        // Sources and the image have to be children of the picture.
        assert_eq!(picture("<div><source srcset=no></div>"), "img");
        assert_eq!(picture("<source srcset=a><p><img src=b></p>"), "ba");
    }

    #[test]
    fn preloads_are_chosen_as_images_are() {
        let found = html(
            "<link rel=preload as=image href=no imagesrcset='a 1x, no 2x'><link rel=preload href=no media='(max-width: 9px)'>
             <link rel=preload as=image type=image/heic href=no><link rel=preload as=font type=font/woff2 href=b>
             <link rel=stylesheet media=print href=c>",
        );
        assert_eq!(found.concat(), "abc");
    }

    #[test]
    fn lazy_images_far_below_the_viewport_are_not_fetched() {
        let found = in_html(
            b"<img loading=lazy src=a><div style='height: 1970px'></div><img loading=LAZY src=b><iframe loading=lazy src=c height=800>
              </iframe><br><iframe src=d></iframe><img src=e width=100 height=100><br><img loading=lazy src=f1><p>text
              <picture><source srcset=f2><img loading=lazy src=no></picture><div style='height:1000px'></div>
              <iframe loading=lazy src=f3></iframe><img loading=eager src=f><div hidden><img src=g><img loading=lazy src=f4></div>
              <img loading=lazy style='display: none' src=f5>",
        );
        assert_eq!(found.addresses.concat(), "abcdefg");
        assert_eq!(found.deferred.concat(), "f1f2f3f4f5");
        // Images without heights take no space, so every image is near the viewport, as in a browser before its first
        // layout.
        let many = "<img loading=lazy src=a>".repeat(100);
        assert_eq!(html(&many).len(), 100);
        let many = "<img loading=lazy src=a width=1200 height=197>".repeat(100);
        assert_eq!(html(&many).len(), 11);
        // A closed `<details>` displays only its summary.
        let details = "<summary><img loading=lazy src=a></summary><img loading=lazy src=b><p><img loading=lazy src=c></p>";
        let all = html(&format!("<details>{details}</details><img loading=lazy src=d>"));
        assert_eq!(all.concat(), "ad");
        assert_eq!(html(&format!("<details open>{details}</details>")).concat(), "abc");
        let table = |height| {
            html(&format!("<table height={height}><tr height=90><td></table><img loading=lazy src=a>")).len()
        };
        assert_eq!([table("1880"), table("1980"), table("5000"), table("100%")], [1, 0, 0, 1]);
        let rows = "<tr height=90><td></tr>".repeat(30);
        assert!(html(&format!("<table height=9>{rows}</table><img loading=lazy src=a>")).is_empty());
        // `sizes=auto` applies only to lazy images.
        let auto = "src=lo srcset='s 300w, l 1280w' sizes=auto width=300";
        assert_eq!(html(&format!("<img loading=lazy {auto}><img {auto}>")).concat(), "sl");
    }

    #[test]
    fn references_state_where_and_how_an_address_is_named() {
        let text = "<head><link rel=stylesheet href=a><script src=b></script><script async src=c></script>\
                    <script type=module src=d></script></head><body><img src=e><img loading=lazy src=f>";
        let found = in_html(text.as_bytes());
        assert_eq!(found.addresses.concat(), "abcdef");
        let end = |part: &str| Some((text.find(part).expect("a part") + part.len()) as u64);
        assert_eq!(found.body_start, end("<body>"));
        let offsets: Vec<_> = found.references.iter().map(|reference| reference.offset).collect();
        let tags = [
            "<link rel=stylesheet href=a>",
            "<script src=b>",
            "<script async src=c>",
            "<script type=module src=d>",
            "<img src=e>",
            "<img loading=lazy src=f>",
        ];
        assert_eq!(offsets, tags.map(end));
        let scripts: Vec<_> = found.references.iter().filter_map(|reference| reference.script).collect();
        assert_eq!(scripts, [ScriptMode::Blocking, ScriptMode::Async, ScriptMode::Module]);
        let head: Vec<_> = found.references.iter().map(|reference| reference.in_head == Some(true)).collect();
        assert_eq!(head, [true, true, true, true, false, false]);
        assert!(found.references[5].lazy && !found.references[4].lazy);
    }

    #[test]
    fn only_attributes_decide_when_a_script_is_executed() {
        let mode = |tag: &str| in_tag(tag).and_then(|(reference, _)| reference.script);
        for tag in
            ["<script src=/defer/async.js>", "<script data-async=false src='/module/a>b.js'>x<script async>"]
        {
            assert_eq!(mode(tag), Some(ScriptMode::Blocking), "{tag}");
        }
        assert_eq!(mode("<SCRIPT Defer src=a>"), Some(ScriptMode::Defer));
        assert_eq!(mode("<script async type=Module src=a>"), Some(ScriptMode::AsyncModule));
        assert_eq!(mode("<script type=module defer src=a>"), Some(ScriptMode::Module));
        assert_eq!([mode("<img src=a>"), mode("x"), mode("<script src")], [None; 3]);
        let lazy = |tag: &str| in_tag(tag).expect("a tag").0.lazy;
        assert!(!lazy("<img class=lazy loading=eager src=a>") && lazy("<img loading='LAZY' src=a>"));
        assert!(
            lazy("<link rel=stylesheet media=print href=a>") && !lazy("<link rel=icon media=print href=a>")
        );
    }

    #[test]
    fn preloads_and_fetch_priorities_are_attributes() {
        let of = |tag: &str| in_tag(tag).expect("a tag").0;
        for rel in ["preload", "modulepreload", "prefetch"] {
            assert!(of(&format!("<link rel={rel} as=script href=a>")).preload, "{rel}");
        }
        assert!(
            !of("<link rel='stylesheet preload' href=a>").preload
                && !of("<link rel=icon href=/preload>").preload
        );
        assert_eq!(of("<link rel=modulepreload href=a>").script, Some(ScriptMode::AsyncModule));
        assert_eq!(of("<img fetchpriority=HIGH src=a>").fetch_priority, Some(FetchPriority::High));
        assert_eq!(of("<script fetchpriority=low src=a>").fetch_priority, Some(FetchPriority::Low));
        assert_eq!(of("<img fetchpriority=auto src=high>").fetch_priority, None);
    }

    #[test]
    fn what_scripts_replace_or_instantiate_is_not_fetched() {
        assert_eq!(
            html("<noscript><img src=no></noscript><template><img src=no></template><img src=yes>"),
            ["yes"]
        );
    }

    #[test]
    fn style_sheets_are_scanned_wherever_they_stand() {
        let found = html(
            "<style>@import 'a'; p { background: URL( \"b\" ) } /* url(no) */ @font-face{src:url(c)}</style>",
        );
        assert_eq!(found.concat(), "abc");
        assert_eq!(
            in_css(b"@import url(a.css); @import\t\"b.css\" print; x{y:url('c d')} url("),
            ["a.css", "b.css", "c d"]
        );
        assert!(in_css(b"url('").is_empty() && in_css(b"@import").is_empty() && in_css(b"/*").is_empty());
    }

    #[test]
    fn of_an_image_set_one_image_is_loaded() {
        for (set, loaded) in [
            ("url(a) 1x, url(b) 2x", "a"),
            ("url(b) 2x, URL( 'a' ) 1X", "a"),
            ("'b' 2dppx, \"a\"", "a"),
            ("url('a,)') 96dpi, url(b) 192dpi", "a,)"),
            ("url(a) 2x, url(b) 3x", "a"),
            ("url(b) .5x, url(a) 0.8x", "a"),
            ("url(b) type('image/heic') 1x, url(a) 1x type(\"image/avif\")", "a"),
            ("url(b) wrong, url(a) 2x", "a"),
            ("linear-gradient(red, blue) 1x, url(b) 2x", ""),
            ("", ""),
        ] {
            let css = format!("x{{y:url(1)}} z{{background:-webkit-image-set({set}) fixed, url(2)}}");
            assert_eq!(in_css(css.as_bytes()).join(" "), format!("1 {loaded} 2").replace("  ", " "), "{set}");
        }
        assert!(in_css(b"x{y:image-set(url(a) 1x").is_empty());
        assert!(in_css("image-set(".repeat(100_000).as_bytes()).is_empty());
    }

    /// The style sheet is scanned in linear time. In quadratic time, a style sheet of 1 MB would take half a minute.
    #[test]
    fn a_long_style_sheet_is_read_once() {
        let css = "url(a)".repeat(200_000);
        assert_eq!(in_css(css.as_bytes()).len(), 200_000);
        let css = "@import 'a';".repeat(100_000) + "url(b)";
        assert_eq!(in_css(css.as_bytes()).len(), 100_001);
    }

    #[test]
    fn the_first_base_counts() {
        assert_eq!(in_html(b"<base target=x><base href=/a/><base href=/b/>").base.as_deref(), Some("/a/"));
    }

    #[test]
    fn malformed_documents_never_panic() {
        for text in
            ["<", "<img src=", "<img src='x", "<style>url(", "\u{0}<\u{fffd}>", "</noscript><img src=a>"]
        {
            let _ = html(text);
        }
        let _ = in_html(&[0xff, b'<', 0xfe, b'>', 0x80]);
        let _ = in_css(&[0xff, b'u', b'r', b'l', b'(', 0x80, b')']);
        // The lower-case form of `İ` has more bytes than `İ` itself. This must not shift the positions in the text.
        let _ = in_css("İİİurl(é)".as_bytes());
    }
}
