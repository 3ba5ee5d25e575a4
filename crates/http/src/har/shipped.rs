//! The pages that ship with the program, as reduced HAR files with sizes, types, times and initiators. The hosts are
//! renamed. The comment in each file names its source.

use crate::page::{Page, PageError};

/// The names of the shipped pages. The first one is the default page.
pub const NAMES: [&str; 5] = ["news", "gallery", "article", "osterdahl-news", "osterdahl-gallery"];

/// The HAR text of each shipped page, in the order of [`NAMES`].
const FILES: [&str; 5] = [
    include_str!("../../pages/news.har"),
    include_str!("../../pages/gallery.har"),
    include_str!("../../pages/article.har"),
    include_str!("../../pages/osterdahl-news.har"),
    include_str!("../../pages/osterdahl-gallery.har"),
];

/// Returns the shipped page called `name`; `None` if there is none.
#[must_use]
pub fn shipped(name: &str) -> Option<Page> {
    named(name).ok()
}

/// Returns the shipped page called `name`.
///
/// # Errors
/// [`PageError`], which lists the available names, if there is no such page.
pub fn named(name: &str) -> Result<Page, PageError> {
    let text = NAMES.iter().zip(FILES).find(|(known, _)| **known == name).map(|(_, text)| text);
    let text = text.ok_or_else(|| {
        PageError::new(format!(
            "no page is called '{name}'; there are {}, or the path of a .har file",
            NAMES.join(", ")
        ))
    })?;
    super::read(name, text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_shipped_page_reads_without_a_warning_and_names_its_source() {
        for name in NAMES {
            let page = named(name).expect(name);
            assert_eq!((page.name.as_str(), page.warnings.len()), (name, 0), "{:?}", page.warnings);
            assert!(page.source.len() > 80 && page.objects[0].content_type == "text/html", "{}", page.source);
            assert!(page.objects[1..].iter().all(|object| object.initiator.is_some()), "{name}");
        }
        let error = named("newspaper").expect_err("no such page").to_string();
        assert!(error.contains("'newspaper'") && error.contains("osterdahl-gallery"), "{error}");
    }

    #[test]
    fn the_default_page_is_of_a_real_page_s_size() {
        let page = named(NAMES[0]).expect("a page");
        assert_eq!((page.objects.len(), page.body_bytes(), page.hosts.len()), (72, 1_060_460, 7));
    }

    #[test]
    fn osterdahl_s_pages_embed_three_and_nine_files() {
        for (name, embedded) in [("osterdahl-news", 3), ("osterdahl-gallery", 9)] {
            let page = named(name).expect(name);
            assert_eq!(page.objects.len(), 1 + embedded);
            assert!(page.objects.iter().all(|object| object.body == 10_240));
            assert!(page.source.contains("assumption"));
        }
    }

    #[test]
    fn the_article_has_the_almanac_s_medians() {
        let page = named("article").expect("a page");
        assert_eq!((page.objects.len(), page.depth()), (71, 4));
        let of = |kind: &str| -> (usize, u64) {
            let of_kind = page.objects.iter().filter(|object| object.content_type.contains(kind));
            of_kind.fold((0, 0), |(count, bytes), object| (count + 1, bytes + object.body))
        };
        assert_eq!((of("html"), of("css"), of("javascript")), ((1, 18_000), (8, 78_000), (24, 613_000)));
        assert_eq!((of("image"), of("font")), ((18, 1_054_000), (4, 131_000)));
    }
}
