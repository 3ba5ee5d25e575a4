//! The outputs of commands on a real network: report, JSON, CSV and a page.

use crate::files::{self, PendingFile};
use crate::{Failure, say};
use std::io::Write;
use std::path::Path;

/// Destinations of the JSON and CSV output and of the page, checked before the work begins.
pub struct Outputs {
    json: Output,
    csv: Output,
    page: Option<PendingFile>,
}

enum Output {
    Discard,
    Stdout,
    File(PendingFile),
}

impl Outputs {
    /// Checks the values of `--json` and `--csv`, and that their files can be written.
    pub fn reserve(json: Option<&str>, csv: Option<&str>) -> Result<Self, Failure> {
        for (name, target) in [("json", json), ("csv", csv)] {
            if target == Some("") {
                return Err(Failure::Usage(format!("--{name}: expected a file name, or -")));
            }
        }
        if json == Some("-") && csv == Some("-") {
            return Err(Failure::Usage("--json and --csv cannot both go to standard output".to_owned()));
        }
        let destination = |target: Option<&str>| {
            Ok(match target {
                None => Output::Discard,
                Some("-") => Output::Stdout,
                Some(name) => Output::File(PendingFile::new(Path::new(name))?),
            })
        };
        let (json, csv) = (destination(json)?, destination(csv)?);
        if let (Output::File(json_file), Output::File(csv_file)) = (&json, &csv)
            && json_file.same_target(csv_file)
        {
            return Err(Failure::Usage("--json and --csv need different files".to_owned()));
        }
        Ok(Self { json, csv, page: None })
    }

    /// Checks the value of `--html`, and that its file can be written.
    #[cfg(target_os = "linux")]
    pub fn with_page(mut self, html: Option<&str>) -> Result<Self, Failure> {
        let Some(name) = html else { return Ok(self) };
        if name.is_empty() || name == "-" {
            return Err(Failure::Usage(format!("--html {name}: expected a file name, such as load.html")));
        }
        let page = PendingFile::new(Path::new(name))?;
        if self.writes_to(Some(&page)) {
            return Err(Failure::Usage(format!("--html {name}: --json or --csv has the same file")));
        }
        self.page = Some(page);
        Ok(self)
    }

    /// Whether JSON or CSV goes to standard output. If so, the report goes to standard error.
    pub fn takes_stdout(&self) -> bool {
        matches!((&self.json, &self.csv), (Output::Stdout, _) | (_, Output::Stdout))
    }

    /// Whether the JSON or the CSV output goes to the same destination as `file`; `None` stands for standard output.
    #[cfg(target_os = "linux")]
    pub fn writes_to(&self, file: Option<&PendingFile>) -> bool {
        [&self.json, &self.csv].into_iter().any(|output| match (output, file) {
            (Output::Discard, _) => false,
            (Output::Stdout, file) => file.is_none(),
            (Output::File(one), file) => file.is_some_and(|file| one.same_target(file)),
        })
    }

    /// Writes the JSON and CSV files, and prints to standard output.
    pub fn write(
        self,
        report: &str,
        json: impl FnOnce() -> String,
        csv: impl FnOnce() -> String,
    ) -> Result<(), Failure> {
        self.write_with_page(report, json, csv, String::new)
    }

    /// Writes the files, and prints to standard output.
    pub fn write_with_page(
        self,
        report: &str,
        json: impl FnOnce() -> String,
        csv: impl FnOnce() -> String,
        page: impl FnOnce() -> String,
    ) -> Result<(), Failure> {
        let to_stderr = self.takes_stdout();
        let (mut filled, mut stdout) = (Vec::new(), None);
        match self.json {
            Output::Discard => {}
            Output::Stdout => stdout = Some(json()),
            Output::File(file) => filled.push(file.fill(json().as_bytes())?),
        }
        match self.csv {
            Output::Discard => {}
            Output::Stdout => stdout = Some(csv()),
            Output::File(file) => filled.push(file.fill(csv().as_bytes())?),
        }
        if let Some(file) = self.page {
            filled.push(file.fill(page().as_bytes())?);
        }
        files::publish(filled)?;
        if to_stderr {
            let _ = std::io::stderr().write_all(report.as_bytes());
        } else {
            say(report)?;
        }
        stdout.map_or(Ok(()), |text| say(&text))
    }
}

/// Returns the command that reproduces these results. The flags for outputs and threads are left out, because they do
/// not affect the results.
pub fn reproducing_command() -> String {
    without_outputs(crate::arguments())
}

fn without_outputs(arguments: impl Iterator<Item = String>) -> String {
    const WITH_VALUE: [&str; 8] =
        ["--out", "--json", "--csv", "--threads", "--compare", "--resume", "--shard", "--trace-out"];
    let mut result = vec!["anabranch".to_owned()];
    let mut arguments = arguments;
    while let Some(argument) = arguments.next() {
        let (flag, own_value) =
            argument.split_once('=').map_or((argument.as_str(), false), |(flag, _)| (flag, true));
        if WITH_VALUE.contains(&flag) {
            if !own_value {
                arguments.next();
            }
        } else if !["--quiet", "-q"].contains(&argument.as_str()) {
            result.push(quoted(argument));
        }
    }
    result.join(" ")
}

/// Returns the command line of this process, quoted for a shell.
pub fn command_line() -> String {
    let quoted_arguments = crate::arguments().map(quoted);
    std::iter::once("anabranch".to_owned()).chain(quoted_arguments).collect::<Vec<_>>().join(" ")
}

/// Quotes `argument` for a shell, if a shell would otherwise interpret it.
pub fn quoted(argument: String) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_=.,:/%@+".contains(c);
    if !argument.is_empty() && argument.chars().all(plain) {
        argument
    } else {
        format!("'{}'", argument.replace('\'', r"'\''"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_reproducing_command_keeps_flags_that_affect_results() {
        let arguments = "race --quiet --out here --shard 3/8 --loss 0,1% --json=x --threads 2 --page"
            .split(' ')
            .map(str::to_owned);
        let command = without_outputs(arguments.chain(["my site.har".to_owned()]));
        assert_eq!(command, "anabranch race --loss 0,1% --page 'my site.har'");
    }
}
