//! The printed cells of a study, one a row.
//!
//! `published.csv`: comment lines begin with `#`, then a header, then rows. The
//! last column is the number; the others label it (`contestant`, the factors, `object`).

use std::collections::BTreeMap;

/// A printed table in long form.
#[derive(Clone, Debug)]
pub struct Published {
    /// The label columns, in order.
    pub columns: Vec<String>,
    /// The cells, in printed order.
    pub rows: Vec<Row>,
}

/// One printed cell.
#[derive(Clone, Debug)]
pub struct Row {
    /// Column to label.
    pub labels: BTreeMap<String, String>,
    /// The number as printed.
    pub value: f64,
}

impl Published {
    /// Reads a `published.csv`.
    ///
    /// # Errors
    /// One line with the number of the line that is wrong.
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut lines =
            text.lines().enumerate().filter(|(_, line)| !line.starts_with('#') && !line.is_empty());
        let (_, header) = lines.next().ok_or("no header")?;
        let mut columns: Vec<String> = header.split(',').map(str::to_owned).collect();
        columns.pop();
        if !columns.iter().any(|column| column == "arm") {
            return Err("no column 'arm'".to_owned());
        }
        let mut rows = Vec::new();
        for (number, line) in lines {
            let at = |what: &str| format!("line {}: {what}", number + 1);
            let fields: Vec<&str> = line.split(',').collect();
            if fields.len() != columns.len() + 1 {
                return Err(at(&format!("{} fields where {} are needed", fields.len(), columns.len() + 1)));
            }
            let value = fields[columns.len()].parse().map_err(|_| at("the last field is not a number"))?;
            let labels =
                columns.iter().cloned().zip(fields.iter().map(|field| (*field).to_owned())).collect();
            rows.push(Row { labels, value });
        }
        Ok(Self { columns, rows })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_keep_their_labels() {
        let table = Published::parse("# note\narm,loss,seconds\ntcp,1%,4.93\n").expect("a table");
        assert_eq!(table.columns, ["arm", "loss"]);
        assert_eq!(table.rows[0].labels["loss"], "1%");
        assert_eq!(table.rows[0].value, 4.93);
        assert!(Published::parse("arm,s\ntcp\n").expect_err("short").contains("line 2"));
        assert!(Published::parse("arm,s\ntcp,x\n").is_err());
        assert!(Published::parse("").is_err());
    }
}
