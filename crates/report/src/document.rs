//! The parts that every HTML page has: the head with style sheets and security policy, and the script at the end.
//!
//! A page quotes names and texts of captures, HAR files and plans, which may come from untrusted sources. The code that
//! quotes them must escape them. If that code fails to escape a text, the Content Security Policy (CSP Level 3) keeps a
//! browser from running the text as a script.

use super::svg::escape;
use super::{SCRIPT, STYLE, SVG_STYLE};
use sha2::{Digest, Sha256};
use std::fmt::Write;

/// Returns the head of a page with figures, up to the start of its body.
pub fn begin(title: &str) -> String {
    head(title, &[("", STYLE), (" id=\"svg-style\"", SVG_STYLE)], Some(SCRIPT))
}

/// Writes the script and the end of a page that was started with [`begin`].
pub fn end(out: &mut String) {
    let _ = write!(out, "<script>\n{SCRIPT}</script>\n</body></html>\n");
}

/// Returns the head of a page. Each item of `styles` has the attributes of a `<style>` element, and the text of its
/// style sheet. `script` is the only script that the page may have.
pub fn head(title: &str, styles: &[(&str, &str)], script: Option<&str>) -> String {
    let mut out = format!(
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\
         <meta http-equiv=\"Content-Security-Policy\" content=\"{}\">\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\
         <title>{}</title>\n",
        policy(styles, script),
        escape(title)
    );
    for (attributes, text) in styles {
        let _ = write!(out, "<style{attributes}>\n{text}</style>\n");
    }
    out.push_str("</head>\n<body>\n");
    out
}

/// Returns a Content Security Policy that allows only this script and these style sheets. The page may load nothing
/// else. Elements may have `style` attributes, for colours and lengths that show data. An injected `style` attribute
/// can only spoil the look of the page.
fn policy(styles: &[(&str, &str)], script: Option<&str>) -> String {
    let sheets: String = styles.iter().map(|(_, text)| format!(" {}", source(text))).collect();
    let script = script.map_or("'none'".to_owned(), source);
    format!(
        "default-src 'none'; script-src {script}; style-src 'unsafe-inline'; style-src-elem{sheets}; \
         style-src-attr 'unsafe-inline'; base-uri 'none'; form-action 'none'"
    )
}

/// Returns the hash of an element's text in the form that a Content Security Policy uses. The hash includes the line
/// break at the start of the element's text.
fn source(text: &str) -> String {
    let hash = Sha256::new().chain_update(b"\n").chain_update(text).finalize();
    format!("'sha256-{}'", base64(&hash))
}

/// RFC 4648 §4: encodes as base64.
fn base64(bytes: &[u8]) -> String {
    const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::new();
    for three in bytes.chunks(3) {
        let bits =
            three.iter().fold(0_u32, |bits, byte| bits << 8 | u32::from(*byte)) << (8 * (3 - three.len()));
        for at in 0..4 {
            let six = (bits >> (18 - 6 * at)) as usize & 63;
            text.push(if at <= three.len() { ALPHABET[six] as char } else { '=' });
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base64_is_that_of_the_rfc() {
        for (bytes, text) in
            [("", ""), ("f", "Zg=="), ("fo", "Zm8="), ("foo", "Zm9v"), ("foobar", "Zm9vYmFy")]
        {
            assert_eq!(base64(bytes.as_bytes()), text);
        }
    }

    /// Returns the texts of all elements of this name in a page.
    fn texts<'a>(page: &'a str, element: &str) -> Vec<&'a str> {
        let (opens, closes) = (format!("<{element}"), format!("</{element}>"));
        let rest = page.split(&opens).skip(1);
        rest.filter_map(|rest| rest.split_once('>')?.1.split(&closes).next()).collect()
    }

    #[test]
    fn the_policy_names_each_style_sheet_and_the_script_of_the_page() {
        let mut page = begin("a & b");
        end(&mut page);
        assert!(page.contains("<title>a &amp; b</title>"), "{}", &page[..900]);
        let policy = page.split("Content-Security-Policy\" content=\"").nth(1).expect("a policy");
        let policy = policy.split('"').next().expect("its end");
        let (styles, scripts) = (texts(&page, "style"), texts(&page, "script"));
        assert_eq!((styles.len(), scripts.len()), (2, 1));
        for text in styles.into_iter().chain(scripts) {
            let hash = format!("'sha256-{}'", base64(&Sha256::digest(text)));
            assert!(policy.contains(&hash), "{policy} without {hash} of {:.60}", text);
        }
        assert!(policy.starts_with("default-src 'none'; script-src 'sha256-"), "{policy}");
        assert!(!policy.contains("script-src 'unsafe"), "{policy}");
    }
}
