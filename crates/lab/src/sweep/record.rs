//! The stored result of one point of a sweep: a compact file that ends with its own digest.

use super::Digesting;
use anabranch_results::{Expectation, Point};
use serde::{Deserialize, Serialize};
use std::fmt::Write;

/// The name and version of the record's schema.
pub const RECORD: &str = "anabranch.point/1";

/// The stored result of one point of a sweep.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct PointRecord {
    /// The schema, always [`RECORD`].
    pub schema: String,
    /// The [`Manifest::identity`](super::Manifest::identity) of the sweep to which the point belongs.
    pub sweep: String,
    /// The point's number, from 1.
    pub number: u64,
    /// The names of the files that were written for this point, beside the record.
    pub files: Vec<String>,
    /// The result of all runs at the point.
    pub point: Point,
    /// The outcomes of the plan's expectations at this point. The field `point` of each outcome is the index of this
    /// point in the sweep: `number` - 1.
    pub expectations: Vec<Expectation>,
}

/// The text between the content of a record and its digest. The digest covers everything before this text.
const DIGEST: &str = ",\"digest\":\"";

impl PointRecord {
    /// Returns the content of the record's file, which is one line.
    #[must_use]
    pub fn to_json(&self) -> String {
        let mut text = serde_json::to_string(self).unwrap_or_default();
        text.pop();
        let digest = digest(&text);
        let _ = writeln!(text, "{DIGEST}{digest}\"}}");
        text
    }

    /// Reads the record of point `number` of the sweep with this `identity`.
    ///
    /// # Errors
    /// Describes the defect. The text continues a line that begins with the file's name.
    pub fn from_json(text: &str, identity: &str, number: usize) -> Result<Self, String> {
        let (content, end) = text.rsplit_once(DIGEST).ok_or("is damaged: it has no digest at its end")?;
        if end != format!("{}\"}}\n", digest(content)) {
            return Err("is damaged: its digest is that of another content".to_owned());
        }
        let damaged = |error: serde_json::Error| format!("is damaged: {error}");
        let record: Self = serde_json::from_str(&format!("{content}}}")).map_err(damaged)?;
        if record.schema != RECORD {
            return Err(format!("has schema '{}' where '{RECORD}' is needed", record.schema));
        }
        if record.sweep != identity {
            return Err("belongs to another sweep".to_owned());
        }
        if record.number != number as u64 {
            return Err(format!("holds point {}", record.number));
        }
        if let Some(file) = record.files.iter().find(|file| file.contains('/') || file.starts_with('.')) {
            return Err(format!("is damaged: '{file}' is no name of a file beside it"));
        }
        Ok(record)
    }
}

fn digest(content: &str) -> String {
    let mut digest = Digesting::default();
    let _ = digest.write_str(content);
    digest.hex()
}

/// Returns the prefix of all file names for point `number` of `count`. The number is padded with zeros, so that the
/// files sort by number.
#[must_use]
pub fn stem(number: usize, count: usize) -> String {
    let width = count.to_string().len();
    format!("{number:0width$}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_digit_that_changed_is_found() {
        let point = Point {
            factors: [("loss".to_owned(), "1%".to_owned())].into(),
            network: "10mbit".to_owned(),
            failure_ns: None,
            workload: anabranch_results::Workload::default(),
            chance: true,
            sharing: Vec::new(),
            contestants: Vec::new(),
            comparisons: Vec::new(),
            changes: Vec::new(),
        };
        let record = PointRecord {
            schema: RECORD.to_owned(),
            sweep: "abc".to_owned(),
            number: 7,
            files: vec!["07.tcp.seed-1.har".to_owned()],
            point,
            expectations: Vec::new(),
        };
        let text = record.to_json();
        assert_eq!(PointRecord::from_json(&text, "abc", 7).as_ref(), Ok(&record));
        assert_eq!(text.lines().count(), 1);
        let wrong = |text: &str, sweep: &str, number| {
            PointRecord::from_json(text, sweep, number).expect_err("refused")
        };
        assert!(wrong(&text.replace("10mbit", "11mbit"), "abc", 7).contains("its digest"));
        assert!(wrong(&text[..text.len() / 2], "abc", 7).contains("no digest"));
        assert!(wrong(text.trim_end(), "abc", 7).contains("damaged"));
        assert!(wrong(&text, "abd", 7).contains("another sweep"));
        assert!(wrong(&text, "abc", 8).contains("holds point 7"));
        assert!(wrong(&text, "abc", 6).contains("holds point 7"));
        for name in ["../x", ".x"] {
            let outside = PointRecord { files: vec![name.to_owned()], ..record.clone() };
            assert!(wrong(&outside.to_json(), "abc", 7).contains(&format!("'{name}'")));
        }
    }

    #[test]
    fn records_of_the_older_format_are_read() {
        let content = "{\"schema\":\"anabranch.point/1\",\"sweep\":\"abc\",\"number\":1,\"files\":[],\"point\":{\"factors\":{},\
                       \"network\":\"10mbit\",\"workload\":{\"name\":\"page\",\"objects\":1,\"bytes\":1},\"chance\":true,\
                       \"arms\":[],\"comparisons\":[{\"a\":\"sctp\",\"b\":\"tcp\",\"metric\":\"page_ms\",\"ratio\":1.0,\"ci95\":null,\
                       \"n\":6,\"less\":0,\"more\":0,\"verdict\":\"level\",\"more_seeds\":null,\"causes\":[]}]},\
                       \"expectations\":[]";
        let text = format!("{content}{DIGEST}{}\"}}\n", digest(content));
        let record = PointRecord::from_json(&text, "abc", 1).expect("a record");
        assert_eq!(record.point.comparisons[0].verdict, anabranch_results::Verdict::Level);
    }

    #[test]
    fn names_sort_by_number() {
        assert_eq!([stem(3, 9), stem(3, 10), stem(123, 10_000)], ["3", "03", "00123"]);
    }
}
