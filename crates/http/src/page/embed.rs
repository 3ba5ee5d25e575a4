//! What a document embeds: the addresses that a browser fetches on its own
//! account when it shows an HTML or CSS file.
//!
//! Scripts are not run, so what they would fetch is not seen. Of several
//! candidates (`srcset`, `<source>`) the one that every browser falls back to
//! is taken.

use html5gum::{DefaultEmitter, StartTag, Token, Tokenizer};

/// What an HTML document embeds.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Embeds {
    /// The first `<base href>`: what the addresses are relative to.
    pub base: Option<String>,
    /// Addresses as written, in order, repetitions included.
    pub addresses: Vec<String>,
}

/// What the HTML document `html` embeds. Never fails: HTML cannot be wrong.
#[must_use]
pub fn in_html(html: &[u8]) -> Embeds {
    let mut emitter = DefaultEmitter::default();
    emitter.naively_switch_states(true);
    let mut found = Embeds::default();
    // What stands in <noscript> and <template> is not fetched by a browser that runs scripts.
    let mut inert = 0_usize;
    let mut in_style = false;
    let mut media: Option<Media> = None;
    for token in Tokenizer::new_with_emitter(html, emitter) {
        let Ok(token) = token;
        match token {
            Token::StartTag(tag) => {
                let name = tag.name.to_ascii_lowercase();
                match name.as_slice() {
                    b"noscript" | b"template" if !tag.self_closing => inert += 1,
                    _ if inert > 0 => {}
                    b"style" => in_style = true,
                    b"base" if found.base.is_none() => found.base = text(&tag, b"href"),
                    b"video" | b"audio" => {
                        media = Some(Media { has_source: text(&tag, b"src").is_some() });
                        of_tag(&name, &tag, &mut found.addresses);
                    }
                    b"source" => {
                        // <picture>'s sources are alternatives to its <img>, which is taken.
                        let Some(media) = media.as_mut().filter(|media| !media.has_source) else { continue };
                        media.has_source = true;
                        found.addresses.extend(text(&tag, b"src"));
                    }
                    _ => of_tag(&name, &tag, &mut found.addresses),
                }
            }
            Token::EndTag(tag) => match tag.name.to_ascii_lowercase().as_slice() {
                b"noscript" | b"template" => inert = inert.saturating_sub(1),
                b"style" => in_style = false,
                b"video" | b"audio" => media = None,
                _ => {}
            },
            Token::String(css) if in_style && inert == 0 => found.addresses.extend(in_css(&css)),
            _ => {}
        }
    }
    found
}

/// An open `<video>` or `<audio>`.
struct Media {
    has_source: bool,
}

fn of_tag(name: &[u8], tag: &StartTag<()>, found: &mut Vec<String>) {
    let attribute = |key: &[u8]| text(tag, key);
    match name {
        b"img" => {
            found.extend(attribute(b"src").or_else(|| attribute(b"srcset").and_then(|s| first_candidate(&s))))
        }
        b"script" | b"iframe" | b"frame" | b"embed" | b"track" | b"audio" => found.extend(attribute(b"src")),
        b"video" => found.extend([attribute(b"poster"), attribute(b"src")].into_iter().flatten()),
        b"input" if attribute(b"type").is_some_and(|kind| kind.eq_ignore_ascii_case("image")) => {
            found.extend(attribute(b"src"));
        }
        b"object" => found.extend(attribute(b"data")),
        b"image" | b"use" => found.extend(attribute(b"href").or_else(|| attribute(b"xlink:href"))),
        b"link" => {
            let rel = attribute(b"rel").unwrap_or_default().to_ascii_lowercase();
            let fetched = ["stylesheet", "icon", "preload", "modulepreload", "manifest"];
            if rel.split_ascii_whitespace().any(|word| fetched.contains(&word)) {
                found.extend(attribute(b"href"));
            }
        }
        b"body" | b"table" | b"td" | b"th" => found.extend(attribute(b"background")),
        _ => {}
    }
    if let Some(style) = attribute(b"style") {
        found.extend(in_css(style.as_bytes()));
    }
}

/// The attribute's value without the white space around it; `None` if absent or empty.
fn text(tag: &StartTag<()>, key: &[u8]) -> Option<String> {
    let value = String::from_utf8_lossy(tag.attributes.get(key)?).trim().to_owned();
    (!value.is_empty()).then_some(value)
}

fn first_candidate(srcset: &str) -> Option<String> {
    let candidate = srcset.trim_start_matches([',', ' ', '\n', '\t']).split_ascii_whitespace().next()?;
    Some(candidate.trim_end_matches(',').to_owned())
}

/// The addresses in `url(…)` and `@import "…"` of a style sheet.
#[must_use]
pub fn in_css(css: &[u8]) -> Vec<String> {
    let css = without_comments(&String::from_utf8_lossy(css));
    let lower = css.to_ascii_lowercase();
    let mut found = Vec::new();
    let mut at = 0;
    let (mut url, mut import) = (Hit::of("url("), Hit::of("@import"));
    loop {
        // Whichever comes first, and whether it is `url(`.
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
            // Unquoted only inside url( ).
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

/// The next place of a word. What has been looked through is not looked through again.
struct Hit {
    word: &'static str,
    /// Where it stands, looked for from the beginning on; `None`: nowhere any more.
    next: Option<usize>,
    begun: bool,
}

impl Hit {
    const fn of(word: &'static str) -> Self {
        Self { word, next: None, begun: false }
    }

    /// Where the text after the word begins that stands at or after `at`, which never goes back.
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
        // Within a string `/*` is no comment, but an address such as `/*.png` is rarer than a comment.
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
            <body background=d><img src=" e "><img srcset="f 1x, no 2x"><picture><source srcset=no><img src=g></picture>
            <iframe src=h></iframe><video poster=i><source src=j><source src=no></video><audio src=k><source src=no></audio>
            <input type=IMAGE src=l><input src=no><object data=m></object><embed src=n><!-- <img src=no> -->
            <p style="background: url(o)"><a href=no>x</a><img><img src="">"#,
        );
        assert_eq!(found.concat(), "abcdefghijklmno");
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

    /// In one pass: a style sheet of a megabyte would take half a minute otherwise.
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
    fn rubbish_is_survived() {
        for text in
            ["<", "<img src=", "<img src='x", "<style>url(", "\u{0}<\u{fffd}>", "</noscript><img src=a>"]
        {
            let _ = html(text);
        }
        let _ = in_html(&[0xff, b'<', 0xfe, b'>', 0x80]);
        let _ = in_css(&[0xff, b'u', b'r', b'l', b'(', 0x80, b')']);
        // A character whose lower case is longer must not shift the positions.
        let _ = in_css("İİİurl(é)".as_bytes());
    }
}
