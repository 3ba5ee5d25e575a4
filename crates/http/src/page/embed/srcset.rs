//! Selects the address of an image: from several candidates, the one that a browser loads at one device pixel per CSS
//! pixel.
//!
//! Implements HTML's "select an image source" (`srcset`, `sizes`, `<source media type>`). Chromium takes the lowest
//! density that is sufficient, or the highest density if none is sufficient.

use super::length::{VIEWPORT_WIDTH, number_prefix, pixels};
use super::media;

/// Returns the address that an image element with these attributes loads. `auto_width` is the width that is used for
/// `sizes=auto` if the image is lazy.
pub(super) fn choose(
    src: Option<&str>,
    srcset: Option<&str>,
    sizes: Option<&str>,
    auto_width: Option<f64>,
) -> Option<String> {
    let Some(srcset) = srcset else { return src.map(str::to_owned) };
    let width = source_size(sizes.unwrap_or(""), auto_width);
    let parsed = candidates(srcset);
    let has_widths = parsed.iter().any(|candidate| matches!(candidate.descriptor, Descriptor::Width(_)));
    let density = |descriptor: &Descriptor| match descriptor {
        Descriptor::Density(density) => *density,
        Descriptor::Width(pixels) => pixels / width,
    };
    let mut all: Vec<(f64, &str)> =
        parsed.iter().map(|candidate| (density(&candidate.descriptor), candidate.address)).collect();
    // `src` is another candidate, with density 1, unless the candidates in `srcset` have width descriptors.
    all.extend(src.filter(|_| !has_widths).map(|src| (1.0, src)));
    select(all).map(str::to_owned)
}

/// Returns the candidate with the lowest density of at least 1. If there is none, returns the candidate with the
/// highest density. Among candidates with the same density, the first is returned.
pub(super) fn select<T>(mut candidates: Vec<(f64, T)>) -> Option<T> {
    // The sort is stable, so the first of several candidates with the same density stays first.
    candidates.sort_by(|a, b| a.0.total_cmp(&b.0));
    let least = candidates.last()?.0.min(1.0);
    candidates.into_iter().find(|(density, _)| *density >= least).map(|(_, candidate)| candidate)
}

/// Returns whether a browser can use a `<source>` element with these attributes in a picture.
pub(super) fn is_usable(kind: Option<&str>, media: Option<&str>) -> bool {
    let known = |kind: &str| {
        let bare = kind.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
        bare.is_empty() || IMAGES.contains(&bare.as_str())
    };
    kind.is_none_or(known) && media.is_none_or(media::matches)
}

/// The image types that Chromium displays.
const IMAGES: [&str; 15] = [
    "image/apng",
    "image/avif",
    "image/bmp",
    "image/gif",
    "image/jpeg",
    "image/jpg",
    "image/jxl",
    "image/pjpeg",
    "image/png",
    "image/svg+xml",
    "image/vnd.microsoft.icon",
    "image/webp",
    "image/x-icon",
    "image/x-png",
    "image/x-xbitmap",
];

struct Candidate<'a> {
    address: &'a str,
    descriptor: Descriptor,
}

enum Descriptor {
    Density(f64),
    /// The width of the image in pixels.
    Width(f64),
}

/// Parses the candidates in a `srcset` attribute. Candidates with invalid descriptors are dropped.
fn candidates(srcset: &str) -> Vec<Candidate<'_>> {
    let is_blank = |letter: char| letter.is_ascii_whitespace();
    let mut found = Vec::new();
    let mut rest = srcset;
    loop {
        rest = rest.trim_start_matches(|letter: char| is_blank(letter) || letter == ',');
        if rest.is_empty() || found.len() == MAX_CANDIDATES {
            return found;
        }
        let (address, after) = rest.split_at(rest.find(is_blank).unwrap_or(rest.len()));
        let bare = address.trim_end_matches(',');
        let descriptors = if bare.len() < address.len() {
            // A comma directly after the address ends the candidate, which then has no descriptors.
            rest = after;
            ""
        } else {
            let descriptors = media::commas(after).next().unwrap_or_default();
            rest = &after[descriptors.len()..];
            descriptors
        };
        if let Some(descriptor) = descriptor(descriptors) {
            found.push(Candidate { address: bare, descriptor });
        }
    }
}

/// Parses the descriptors after an address. A height is ignored, and allowed only together with a width.
fn descriptor(text: &str) -> Option<Descriptor> {
    let (mut density, mut width, mut height) = (None, None, false);
    for word in text.split_ascii_whitespace() {
        let unit = word.chars().next_back()?;
        let number = &word[..word.len() - unit.len_utf8()];
        let whole = || number.parse::<u32>().ok().filter(|pixels| *pixels > 0 && !number.starts_with('+'));
        match unit {
            'w' if width.is_none() && density.is_none() => width = Some(f64::from(whole()?)),
            'h' if !height && density.is_none() => {
                whole()?;
                height = true;
            }
            'x' if density.is_none() && width.is_none() && !height => {
                let is_number = !number.is_empty() && number_prefix(number) == number.len();
                let value = number.parse::<f64>().ok().filter(|_| is_number && !number.starts_with('+'));
                density = Some(value.filter(|density| *density >= 0.0 && density.is_finite())?);
            }
            _ => return None,
        }
    }
    match (density, width) {
        (_, Some(width)) => Some(Descriptor::Width(width)),
        (_, None) if height => None,
        (density, None) => Some(Descriptor::Density(density.unwrap_or(1.0))),
    }
}

/// Returns the width in pixels that `sizes` gives an image. The default is the width of the viewport.
fn source_size(sizes: &str, auto_width: Option<f64>) -> f64 {
    for entry in media::commas(sizes) {
        let entry = entry.trim();
        if entry.eq_ignore_ascii_case("auto") {
            // The entry `auto` stands for `auto_width`. If the image is not lazy or has no known width, Chromium uses
            // the width of the viewport. The entries after `auto` are ignored.
            return auto_width.unwrap_or(VIEWPORT_WIDTH);
        }
        // The size is the last component of the entry, after the media condition.
        let mut depth = 0_usize;
        let split = entry.char_indices().rev().find(|(_, letter)| {
            match letter {
                ')' => depth += 1,
                '(' => depth = depth.saturating_sub(1),
                _ => {}
            }
            depth == 0 && letter.is_whitespace()
        });
        let start = split.map_or(0, |(index, letter)| index + letter.len_utf8());
        // The size may follow the condition without a blank, as in `(min-width: 1px)50vw`.
        let start = match entry[start..].strip_prefix('(').and_then(|rest| rest.rfind(')')) {
            Some(end) if end + 2 < entry.len() - start => start + end + 2,
            _ => start,
        };
        let (condition, size) = entry.split_at(start);
        let Some(size) = pixels(size).filter(|size| *size >= 0.0) else { continue };
        if condition.trim().is_empty() || media::condition_matches(condition) {
            return size;
        }
    }
    VIEWPORT_WIDTH
}

/// The maximum number of candidates of one image.
const MAX_CANDIDATES: usize = 1000;

#[cfg(test)]
mod tests {
    use super::*;

    fn chosen(src: &str, srcset: &str, sizes: &str) -> String {
        choose((!src.is_empty()).then_some(src), Some(srcset), Some(sizes), None).unwrap_or_default()
    }

    #[test]
    fn densities_are_chosen_as_at_one_pixel_a_dot() {
        assert_eq!(chosen("lo", "one 1x, two 2x", ""), "one");
        assert_eq!(chosen("lo", "two 2x, three 3x", ""), "lo");
        assert_eq!(chosen("", "two 2x, three 3x", ""), "two");
        assert_eq!(chosen("", "half .5x, less 0.25x", ""), "half");
        assert_eq!(chosen("lo", "half 0.5x, more 1.5x", ""), "lo");
        assert_eq!(chosen("lo", "a", ""), "a");
        assert_eq!(chosen("lo", "", ""), "lo");
        assert_eq!(chosen("lo", "a, b 2x", ""), "a");
        assert_eq!(chosen("lo", "a 1x,b 1x", ""), "a");
        assert_eq!(chosen("", "a,b 1x", ""), "a,b");
        assert_eq!(chosen("", "a 2x, data:image/png;base64,AA 1x", ""), "data:image/png;base64,AA");
        assert_eq!(choose(Some("lo"), None, None, None).as_deref(), Some("lo"));
        assert_eq!(choose(None, None, None, None), None);
    }

    #[test]
    fn descriptors_that_are_none_drop_their_candidate() {
        for wrong in [
            "1", "1y", "x", "-1x", "+1x", "0w", "-3w", "1.5w", "1x 2x", "1x 1w", "100h", "1x 1h", "NaNx",
            "infx",
        ] {
            assert_eq!(chosen("lo", &format!("a {wrong}, b 9x"), ""), "lo", "{wrong}");
            assert_eq!(chosen("", &format!("a {wrong}, b 1x"), ""), "b", "{wrong}");
        }
        assert_eq!(chosen("", "a f(1, 2) , b 1x", ""), "b");
        assert_eq!(chosen("lo", "a 1400w 100h", ""), "a");
    }

    #[test]
    fn widths_are_chosen_by_sizes() {
        let widths = "s 320w, m 640w, l 1280w, x 2560w";
        assert_eq!(chosen("lo", widths, ""), "l");
        assert_eq!(chosen("lo", widths, "50vw"), "m");
        assert_eq!(chosen("lo", widths, "641px"), "l");
        assert_eq!(chosen("lo", widths, "3000px"), "x");
        assert_eq!(chosen("lo", widths, "(max-width: 600px) 480px, 300px"), "s");
        assert_eq!(chosen("lo", widths, "(min-width: 1000px) 25vw, 100vw"), "s");
        assert_eq!(chosen("lo", widths, "(min-width:1000px)25vw,100vw"), "s");
        assert_eq!(chosen("lo", widths, "(min-width: 1000px) calc(100vw - 700px), 100vw"), "m");
        assert_eq!(chosen("lo", widths, "bad, (nothing) 10px, 600px"), "m");
        assert_eq!(chosen("lo", widths, "10%"), "l");
        assert_eq!(chosen("lo", widths, "-10px, 300px"), "s");
        assert_eq!(chosen("lo", widths, "auto, 300px"), "l");
        assert_eq!(choose(None, Some(widths), Some("auto, 300px"), Some(600.0)).as_deref(), Some("m"));
        assert_eq!(chosen("lo", widths, "0"), "s");
    }

    #[test]
    fn sources_are_usable_by_type_and_medium() {
        assert!(is_usable(None, None) && is_usable(Some("image/webp"), Some("(min-width: 100px)")));
        assert!(is_usable(Some("IMAGE/AVIF; x=1"), Some("")) && is_usable(Some(""), None));
        assert!(!is_usable(Some("image/tiff"), None) && !is_usable(Some("image/heic"), None));
        assert!(!is_usable(None, Some("(max-width: 100px)")) && !is_usable(None, Some("print")));
    }
}
