//! `anabranch completions` and `anabranch man`: generate the shell completions and man pages that a package installs.
//! Both are derived from the definition of the command line.

use crate::files::{self, PendingFile};
use crate::{Completion, Failure, args, say};
use clap::{Arg, ArgMatches, Command, value_parser};
use clap_complete::Shell;
use clap_mangen::Man;
use std::path::Path;

/// Returns the definition of the command that prints shell completions.
pub fn completions() -> Command {
    Command::new("completions")
        .about("Print completions for a shell")
        .after_long_help(
            "Examples:\n  \
             anabranch completions bash > anabranch.bash\n  \
             anabranch completions zsh > _anabranch",
        )
        .arg(
            Arg::new("shell")
                .value_name("SHELL")
                .required(true)
                .value_parser(value_parser!(Shell))
                .help("The shell"),
        )
}

/// Returns the definition of the command that writes man pages.
pub fn man() -> Command {
    Command::new("man")
        .about("Write man pages: anabranch.1 and a page for each verb")
        .after_long_help("Examples:\n  anabranch man man1")
        .arg(
            Arg::new("directory")
                .value_name("DIR")
                .required(true)
                .help("The directory for the pages; created if it does not exist"),
        )
}

/// Prints the completions for a shell.
pub fn complete(matches: &ArgMatches) -> Result<Completion, Failure> {
    let shell = matches.get_one::<Shell>("shell").copied().unwrap_or(Shell::Bash);
    let mut text = Vec::new();
    clap_complete::generate(shell, &mut args::command(), "anabranch", &mut text);
    say(&String::from_utf8_lossy(&text))?;
    Ok(Completion::Well)
}

/// Writes either all of the man pages or none of them.
pub fn manual(matches: &ArgMatches) -> Result<Completion, Failure> {
    let directory = Path::new(matches.get_one::<String>("directory").map_or("", String::as_str));
    files::reserve_directory(directory)?;
    let mut written = Vec::new();
    for (name, page) in pages(&args::command())? {
        written.push(PendingFile::new(&directory.join(name))?.fill(&page)?);
    }
    files::publish(written)?;
    Ok(Completion::Well)
}

/// Returns the man pages with their names: one for the program, one for each command and one for each subcommand.
fn pages(command: &Command) -> Result<Vec<(String, Vec<u8>)>, Failure> {
    let mut pages = Vec::new();
    let mut waiting = vec![("anabranch".to_owned(), command.clone())];
    while let Some((name, command)) = waiting.pop() {
        let verbs = command.get_subcommands().filter(|verb| verb.get_name() != "help");
        waiting.extend(verbs.map(|verb| (format!("{name}-{}", verb.get_name()), verb.clone())));
        let mut page = Vec::new();
        let shown = command.display_name(name.clone()).bin_name(name.replace('-', " "));
        let man = Man::new(shown.disable_help_subcommand(true)).title(name.to_uppercase());
        let rendered = man.source(concat!("anabranch ", env!("CARGO_PKG_VERSION"))).render(&mut page);
        rendered.map_err(|error| Failure::Internal(format!("{name}: {error}")))?;
        pages.push((format!("{name}.1"), page));
    }
    pages.sort();
    Ok(pages)
}
