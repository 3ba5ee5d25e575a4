//! The published values of a table, read from a file with one value per row.
//!
//! A file `TABLE.csv` has a header and then the rows. Lines that start with `#` are comments. The last column is the
//! published number. The other columns are labels: `contestant`, the factors, and `object`.

use std::collections::BTreeMap;

/// A published table. Each row has one published value.
#[derive(Clone, Debug)]
pub struct PublishedTable {
    /// The names of the label columns, in their order.
    pub columns: Vec<String>,
    /// The cells, in the order of the file.
    pub rows: Vec<Row>,
}

/// One published cell.
#[derive(Clone, Debug)]
pub struct Row {
    /// The labels of the cell, by column.
    pub labels: BTreeMap<String, String>,
    /// The published number.
    pub value: f64,
}

impl Row {
    /// Returns the contestant of the cell.
    #[must_use]
    pub fn contestant(&self) -> &str {
        self.labels.get("contestant").map_or("", String::as_str)
    }

    /// Returns the number of the object, from 1; `None` if the cell does not describe an object.
    #[must_use]
    pub fn object(&self) -> Option<usize> {
        self.labels.get("object")?.parse().ok()
    }
}

impl PublishedTable {
    /// Reads the text of a `TABLE.csv`.
    ///
    /// # Errors
    /// A one-line message with the number of the faulty line.
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut lines =
            text.lines().enumerate().filter(|(_, line)| !line.starts_with('#') && !line.is_empty());
        let (_, header) = lines.next().ok_or("no header")?;
        let mut columns: Vec<String> = header.split(',').map(str::to_owned).collect();
        columns.pop();
        if !columns.iter().any(|column| column == "contestant") {
            return Err("no column 'contestant'".to_owned());
        }
        let mut rows = Vec::new();
        for (number, line) in lines {
            let at = |what: &str| format!("line {}: {what}", number + 1);
            let fields: Vec<&str> = line.split(',').collect();
            if fields.len() != columns.len() + 1 {
                return Err(at(&format!("{} fields where {} are needed", fields.len(), columns.len() + 1)));
            }
            let value: f64 =
                fields[columns.len()].parse().map_err(|_| at("the last field is not a number"))?;
            if !value.is_finite() || value <= 0.0 {
                return Err(at("the last field is no number above 0"));
            }
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
        let table = PublishedTable::parse("# note\ncontestant,loss,seconds\ntcp,1%,4.93\n").expect("a table");
        assert_eq!(table.columns, ["contestant", "loss"]);
        assert_eq!(table.rows[0].labels["loss"], "1%");
        assert_eq!(table.rows[0].value, 4.93);
        assert!(PublishedTable::parse("contestant,s\ntcp\n").expect_err("short").contains("line 2"));
        assert!(PublishedTable::parse("contestant,s\ntcp,x\n").is_err());
        assert!(PublishedTable::parse("contestant,s\ntcp,0\n").is_err());
        assert!(PublishedTable::parse("").is_err());
    }
}
