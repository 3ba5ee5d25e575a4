//! Checks that comments, pages and messages are plain English: none of the listed phrases, and no long sentence. Comments
//! also must not only repeat a name, and names must be terms that a protocol engineer knows.

use std::fs;
use std::path::{Path, PathBuf};

/// Phrases that no comment, page or message may use. A `^` stands for the beginning of a sentence.
const PHRASES: &[&str] = &[
    "whoever",
    "so many",
    "so much as",
    "and its like",
    "and the like",
    "what came of",
    "what is news",
    "in such a way",
    "^But for",
    "^Of what",
    "^Whose",
    "^So many",
    "^So long",
];

/// Phrases that pages and messages must not use, each with what a reader expects instead.
const OUTPUT_PHRASES: &[(&str, &str)] = &[
    ("sooner", "faster"),
    ("goes not with", "cannot be combined with"),
    ("is to come", "is not implemented"),
    ("for sure", "what is known"),
    ("to and fro", "between"),
    ("so long a", "the length"),
    ("so far a", "the distance"),
    ("so much is", "the amount"),
    ("once so often", "at this interval"),
    ("near print", "near the published value"),
    ("^What is not", "a noun"),
];

/// Names that must not be used, each with a term to use instead. They mean nothing to a protocol engineer, or unrelated
/// items have shared them. `inbound`, `streams`, `last` and `either` are not listed, because they are good names of
/// methods and modules.
const NAMES: &[(&str, &str)] = &[
    ("Purse", "MemoryAccount"),
    ("Far", "ColdStreams"),
    ("Doubt", "UndoState"),
    ("is_smooth", "has_no_gaps_or_losses"),
    ("aside", "out_of_order_messages"),
    ("announce_again", "schedule_forward_tsn_retransmit"),
    ("heard_while_shutting_down", "reset_shutdown_retry_count"),
    ("Flying", "PacketInFlight"),
    ("missed_anyway", "count_miss_on_abandoned"),
    ("Promise", "ReliabilityPolicy"),
    ("Hold", "BufferReservation"),
    ("Ticket", "ReservationId"),
    ("Stored", "QueuedMessage"),
    ("Birth", "TcbInit"),
    ("Ends", "FourTuple"),
    ("Seat", "ReusePortSocket"),
    ("Unread", "NoSteering"),
    ("Passage", "TapRecord"),
    ("Sighting", "CapturedPacket"),
    ("Occupant", "TaskEntry"),
    ("Parcel", "PacketBuf"),
    ("parcel", "packet_buf"),
    ("Came", "HandshakeProgress"),
    ("beside", "additional_data"),
    ("Spoken", "ServerParameters"),
    ("entrance", "handshake_limiter"),
    ("visits", "resumption"),
    ("Telling", "RecordingVerifier"),
    ("Duty", "SessionDriver"),
    ("beneath", "root_dir"),
    ("opening", "preface"),
    ("screen", "smuggling_guard"),
    ("turns", "fair_queue"),
    ("place", "url, listen_addr, index, or the verb's object"),
    ("Carrier", "UrlScheme or LowerProtocol"),
    ("Believing", "ClientTls"),
    ("asks_after_peers", "shorten_heartbeat_interval"),
    ("Forgetful", "NullStore"),
    ("off", "mismatches"),
    ("misfit", "unsupported_key"),
    ("harvest", "collect"),
    ("One", "PersonResult"),
    ("arms", "contestants"),
    ("held_back_by", "adverse_causes"),
    ("Sent", "the sent item: SentSegment, SenderReport"),
    ("End", "the end of what: LinkEnd, CaptureEnd"),
    ("Kept", "the kept item: PendingCookieEcho"),
    ("Kind", "the kind of what: ColumnKind, PacketType"),
];

/// Words with a full stop that does not end a sentence.
const ABBREVIATIONS: &[&str] = &["e.g.", "i.e.", "cf.", "etc.", "vs.", "al.", "No."];

/// The maximum number of words in a sentence.
const MAX_WORDS: usize = 30;

/// Files whose text is still to be rewritten, each with the number of complaints. The numbers may only decrease.
const EXCEPTIONS: &[(&str, usize)] = &[];

/// The page `docs/outcomes.md`, which a study writes. Its lists are summaries, not prose.
const GENERATED: &str = "docs/outcomes.md";

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// Returns the path of a file as it is shown in a complaint.
fn shown(path: &Path) -> String {
    path.strip_prefix(root()).expect("below the root").display().to_string()
}

/// Returns the files below these folders that have this extension.
fn files(folders: &[&str], wanted: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut folders: Vec<PathBuf> = folders.iter().map(|name| root().join(name)).collect();
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).expect("a folder") {
            let path = entry.expect("an entry").path();
            if path.is_dir() {
                if path.file_name().is_some_and(|name| name != "target" && name != "findings") {
                    folders.push(path);
                }
            } else if path.extension().is_some_and(|extension| extension == wanted) {
                found.push(path);
            }
        }
    }
    found.sort();
    found
}

fn sources() -> Vec<PathBuf> {
    files(&["crates", "tests", "benches", "interop", "conformance", "fuzz"], "rs")
}

/// A comment in Rust code: consecutive lines of one kind, and the code that follows.
struct Comment<'a> {
    line: usize,
    is_doc: bool,
    lines: Vec<&'a str>,
    next: &'a str,
}

fn comments(text: &str) -> Vec<Comment<'_>> {
    let mut found: Vec<Comment<'_>> = Vec::new();
    let mut open: Option<(&str, Comment<'_>)> = None;
    for (at, line) in text.lines().enumerate() {
        let code = line.trim_start();
        let mark = ["//!", "///", "//"].into_iter().find(|mark| code.starts_with(mark));
        if let (Some(mark), Some((kind, comment))) = (mark, &mut open)
            && mark == *kind
        {
            comment.lines.push(&code[mark.len()..]);
            continue;
        }
        let is_attribute = code.starts_with("#[");
        if let Some((kind, mut comment)) = open.take() {
            if kind == "///" && is_attribute {
                open = Some((kind, comment));
                continue;
            }
            comment.next = code;
            found.push(comment);
        }
        if let Some(mark) = mark {
            let lines = vec![&code[mark.len()..]];
            open = Some((mark, Comment { line: at + 1, is_doc: mark == "///", lines, next: "" }));
        }
    }
    found.extend(open.map(|(_, comment)| comment));
    found
}

/// Returns the sentences of a comment, without code. List items, headings and quotations are separate sentences.
fn sentences(lines: &[&str]) -> Vec<String> {
    let (mut found, mut paragraph, mut is_quoted) = (Vec::new(), String::new(), false);
    let mut end = |paragraph: &mut String| {
        let mut sentence = String::new();
        let words: Vec<&str> = paragraph.split_whitespace().collect();
        for (at, word) in words.iter().enumerate() {
            sentence += word;
            sentence.push(' ');
            let mark = word.trim_end_matches(['"', ')', '*', '`', '”']);
            let ends = mark.ends_with(['.', '?', '!', ':', ';'])
                && !ABBREVIATIONS.contains(&mark.trim_start_matches('('));
            let begins = at + 1 < words.len();
            if ends && begins {
                found.push(std::mem::take(&mut sentence).trim_end().to_owned());
            }
        }
        if !sentence.is_empty() {
            found.push(sentence.trim_end().to_owned());
        }
        paragraph.clear();
    };
    for line in lines {
        let text = line.trim();
        if text.starts_with("```") {
            is_quoted = !is_quoted;
            end(&mut paragraph);
        } else if is_quoted
            || line.starts_with("     ") && paragraph.is_empty()
            || text.is_empty()
            || text.starts_with(['|', '#'])
        {
            end(&mut paragraph);
        } else {
            let is_item = text.starts_with("- ")
                || text.starts_with("* ")
                || text.split_once(". ").is_some_and(|(number, _)| number.parse::<u32>().is_ok());
            if is_item {
                end(&mut paragraph);
            }
            paragraph += text;
            paragraph.push(' ');
        }
    }
    end(&mut paragraph);
    found
}

/// Returns what is wrong with these sentences, each with the number of the line on which its text begins.
fn complaints(file: &str, line: usize, sentences: &[String]) -> Vec<String> {
    let mut found = Vec::new();
    for sentence in sentences {
        for phrase in PHRASES.iter().filter(|phrase| has_phrase(sentence, phrase)) {
            found.push(format!("{file}:{line}: \"{}\" in: {sentence}", phrase.trim_start_matches('^')));
        }
        let is_word = |word: &&str| word.contains(char::is_alphanumeric);
        let words = sentence.split_whitespace().filter(is_word).count();
        if words > MAX_WORDS {
            found.push(format!("{file}:{line}: {words} words: {sentence}"));
        }
    }
    found
}

/// Returns the string literals of a Rust file, up to its tests, each with the number of the line on which it begins.
/// Raw literals are left out: they hold TOML, HTML and scripts.
fn literals(text: &str) -> Vec<(usize, String)> {
    let (mut found, mut line) = (Vec::new(), 1);
    let code = text.split("#[cfg(test)]\nmod ").next().unwrap_or(text);
    let mut letters = code.chars().peekable();
    let mut before = ' ';
    while let Some(letter) = letters.next() {
        match letter {
            '\n' => line += 1,
            '/' if letters.peek() == Some(&'/') => {
                while letters.next_if(|letter| *letter != '\n').is_some() {}
            }
            // The quote begins a character literal, and not a lifetime, if a closing quote follows the character.
            '\'' => {
                let mut ahead = letters.clone();
                let first = ahead.next();
                if first == Some('\\') {
                    letters.nth(1);
                    while letters.next().is_some_and(|letter| letter != '\'') {}
                } else if ahead.next() == Some('\'') {
                    letters.nth(1);
                }
            }
            '"' | '#' if before == 'r' && (letter == '"' || matches!(letters.peek(), Some('"' | '#'))) => {
                let mut end = String::from("\"");
                let mut opening = letter;
                while opening == '#' {
                    end.push('#');
                    opening = letters.next().unwrap_or('"');
                }
                let mut raw = String::new();
                for letter in letters.by_ref() {
                    line += usize::from(letter == '\n');
                    raw.push(letter);
                    if raw.ends_with(&end) {
                        break;
                    }
                }
            }
            '"' => {
                let (begin, mut literal) = (line, String::new());
                while let Some(letter) = letters.next_if(|letter| *letter != '"') {
                    line += usize::from(letter == '\n');
                    match (letter, letters.peek()) {
                        ('\\', Some('\n')) => {
                            while let Some(space) = letters.next_if(|letter| letter.is_whitespace()) {
                                line += usize::from(space == '\n');
                            }
                        }
                        ('\\', Some('n')) => {
                            letters.next();
                            literal.push('\n');
                        }
                        ('\\', Some(_)) => literal.extend(letters.next()),
                        _ => literal.push(letter),
                    }
                }
                letters.next();
                found.push((begin, literal));
            }
            _ => {}
        }
        before = letter;
    }
    found
}

fn has_phrase(sentence: &str, phrase: &str) -> bool {
    if let Some(beginning) = phrase.strip_prefix('^') {
        return sentence.starts_with(&format!("{beginning} "));
    }
    let sentence = sentence.to_lowercase();
    sentence.match_indices(phrase).any(|(at, _)| {
        let is_letter =
            |letter: Option<char>| letter.is_some_and(|letter| letter.is_alphanumeric() || letter == '_');
        !is_letter(sentence[..at].chars().next_back())
            && !is_letter(sentence[at + phrase.len()..].chars().next())
    })
}

/// Returns the name that a line of Rust code declares.
fn declared(code: &str) -> Option<&str> {
    let mut words = code.split_whitespace().skip_while(|word| {
        word.starts_with("pub")
            || ["const", "async", "unsafe", "extern", "in", "crate)", "super)"].contains(word)
    });
    let kind = words.next()?;
    let named = if ["fn", "struct", "enum", "trait", "type", "mod", "static", "union"].contains(&kind) {
        words.next()?
    } else {
        return None;
    };
    Some(named.split(|letter: char| !letter.is_alphanumeric() && letter != '_').next().unwrap_or_default())
}

/// Returns the words of a name, in small letters: `SackTimer` and `sack_timer` are the same.
fn words_of(name: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    for letter in name.chars() {
        if !letter.is_alphanumeric()
            || letter.is_uppercase() && words.last().is_some_and(|word| !word.is_empty())
        {
            words.push(String::new());
        }
        if letter.is_alphanumeric() {
            words.last_mut().expect("a word").extend(letter.to_lowercase());
        }
    }
    words.retain(|word| !word.is_empty());
    words
}

/// Returns whether documentation only repeats a name, as `/// The path.` above `struct Path` does.
fn repeats(documentation: &str, name: &str) -> bool {
    const EMPTY: &[&str] =
        &["a", "an", "the", "of", "this", "its", "returns", "is", "to", "and", "get", "gets", "one", "in"];
    let stem = |word: &str| word.trim_end_matches("es").trim_end_matches('s').to_owned();
    let name: Vec<String> = words_of(name).iter().map(|word| stem(word)).collect();
    documentation
        .split(|letter: char| !letter.is_alphanumeric())
        .filter(|word| !word.is_empty())
        .map(str::to_lowercase)
        .filter(|word| !EMPTY.contains(&word.as_str()))
        .all(|word| name.contains(&stem(&word)))
}

fn assert_none(mut wrong: Vec<String>, what: &str) {
    wrong.dedup();
    assert!(wrong.is_empty(), "{} to {what}:\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn comments_are_plain_english() {
    let mut wrong = Vec::new();
    for path in sources().iter().filter(|path| !path.ends_with("tests/tests/prose.rs")) {
        let (shown, text) = (shown(path), fs::read_to_string(path).expect("a source file"));
        for comment in comments(&text) {
            let sentences = sentences(&comment.lines);
            wrong.extend(complaints(&shown, comment.line, &sentences));
            if let (true, [sentence], Some(name)) = (comment.is_doc, &sentences[..], declared(comment.next))
                && repeats(sentence, name)
            {
                wrong.push(format!("{shown}:{}: only repeats `{name}`: {sentence}", comment.line));
            }
        }
    }
    assert_none(wrong, "rewrite");
}

/// Returns what is wrong with text that users read: `complaints`, and the phrases of `OUTPUT_PHRASES`.
fn output_complaints(file: &str, line: usize, lines: &[&str]) -> Vec<String> {
    let sentences = sentences(lines);
    let mut found = complaints(file, line, &sentences);
    for sentence in &sentences {
        for (phrase, better) in OUTPUT_PHRASES.iter().filter(|(phrase, _)| has_phrase(sentence, phrase)) {
            found.push(format!("{file}:{line}: \"{phrase}\" (say {better}) in: {sentence}"));
        }
    }
    found
}

/// Returns the complaints about a file if `EXCEPTIONS` does not have their number.
fn beyond_exceptions(file: &str, found: Vec<String>) -> Vec<String> {
    let allowed = EXCEPTIONS.iter().find(|(name, _)| *name == file).map_or(0, |(_, count)| *count);
    match found.len() {
        count if count == allowed => Vec::new(),
        count if count > allowed => found,
        count => vec![format!("{file}: write {count} in EXCEPTIONS, not {allowed}")],
    }
}

#[test]
fn pages_are_plain_english() {
    let mut pages = files(&["docs"], "md");
    pages.extend(
        ["README", "CONTRIBUTING", "CHANGELOG", "ARCHITECTURE"].map(|name| root().join(format!("{name}.md"))),
    );
    let mut wrong = Vec::new();
    for path in pages.iter().filter(|path| !path.ends_with(GENERATED)) {
        let text = fs::read_to_string(path).expect("a page");
        let lines: Vec<&str> = text.lines().filter(|line| !line.starts_with("<!--")).collect();
        wrong.extend(beyond_exceptions(&shown(path), output_complaints(&shown(path), 1, &lines)));
    }
    assert_none(wrong, "rewrite");
}

/// Checks the string literals of the crates, of which help, errors and output are made. Also checks the docstrings of
/// Python.
#[test]
fn messages_are_plain_english() {
    let mut wrong = Vec::new();
    for path in files(&["crates"], "rs") {
        let shown = shown(&path);
        if !shown.contains("/src/") || shown.ends_with("tests.rs") || shown.contains("/tests/") {
            continue;
        }
        let text = fs::read_to_string(&path).expect("a source file");
        let mut found = Vec::new();
        for (line, literal) in literals(&text) {
            // Lines that begin with spaces are examples or rows of tables, so they are not checked.
            let lines: Vec<&str> = literal.lines().filter(|line| !line.starts_with("  ")).collect();
            found.extend(output_complaints(&shown, line, &lines));
        }
        wrong.extend(beyond_exceptions(&shown, found));
    }
    for path in files(&["crates/py/python"], "py") {
        let text = fs::read_to_string(&path).expect("a source file");
        for docstring in text.split("\"\"\"").skip(1).step_by(2) {
            let lines: Vec<&str> = docstring.lines().map(str::trim).collect();
            wrong.extend(output_complaints(&shown(&path), 1, &lines));
        }
    }
    assert_none(wrong, "rewrite");
}

#[test]
fn literals_are_found_between_comments_and_characters() {
    let text = "let a = \"x \\\n    y\\n\"; // \"no\"\nlet b = ('\"', '\\'', r#\"raw \"z\"\"#);\nf::<'a>(\"{b}\\\"c\")";
    assert_eq!(literals(text), [(1, "x y\n".to_owned()), (4, "{b}\"c".to_owned())]);
}

#[test]
fn names_are_terms_of_the_field() {
    let mut wrong = Vec::new();
    for path in sources() {
        let (shown, text) = (shown(&path), fs::read_to_string(&path).expect("a source file"));
        for (at, line) in text.lines().enumerate() {
            let Some(name) = declared(line.trim_start()) else { continue };
            let Some((_, better)) = NAMES.iter().find(|(bad, _)| *bad == name) else { continue };
            wrong.push(format!("{shown}:{}: `{name}`: {better}", at + 1));
        }
    }
    assert_none(wrong, "rename");
}
