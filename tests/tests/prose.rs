//! Checks that comments are plain English: none of the listed phrases, no long sentence, and no documentation that only
//! repeats a name. Also checks that a protocol engineer need not look up any name.

use std::fs;
use std::path::{Path, PathBuf};

/// Phrases that a comment never needs. A `^` stands for the beginning of a sentence.
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

fn sources(root: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut folders: Vec<PathBuf> = ["crates", "tests", "benches", "interop", "conformance", "fuzz"]
        .iter()
        .map(|name| root.join(name))
        .collect();
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).expect("a folder") {
            let path = entry.expect("an entry").path();
            if path.is_dir() {
                if path.file_name().is_some_and(|name| name != "target" && name != "findings") {
                    folders.push(path);
                }
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                found.push(path);
            }
        }
    }
    found.sort();
    found
}

/// A comment: consecutive lines of one kind, and the code that follows.
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

/// Returns the name that a line of code declares.
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

#[test]
fn comments_are_plain_english() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut wrong = Vec::new();
    for path in sources(&root) {
        let shown = path.strip_prefix(&root).expect("below").display().to_string();
        let text = fs::read_to_string(&path).expect("a source file");
        if shown.ends_with("tests/tests/prose.rs") {
            continue;
        }
        for comment in comments(&text) {
            let sentences = sentences(&comment.lines);
            for sentence in &sentences {
                for phrase in PHRASES.iter().filter(|phrase| has_phrase(sentence, phrase)) {
                    wrong.push(format!(
                        "{shown}:{}: \"{}\" in: {sentence}",
                        comment.line,
                        phrase.trim_start_matches('^')
                    ));
                }
                let words = sentence.split_whitespace().count();
                if words > MAX_WORDS {
                    wrong.push(format!("{shown}:{}: {words} words: {sentence}", comment.line));
                }
            }
            if let (true, [sentence], Some(name)) = (comment.is_doc, &sentences[..], declared(comment.next))
                && repeats(sentence, name)
            {
                wrong.push(format!("{shown}:{}: only repeats `{name}`: {sentence}", comment.line));
            }
        }
    }
    assert!(wrong.is_empty(), "{} to rewrite:\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn names_are_terms_of_the_field() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut wrong = Vec::new();
    for path in sources(&root) {
        let shown = path.strip_prefix(&root).expect("below").display().to_string();
        let text = fs::read_to_string(&path).expect("a source file");
        for (at, line) in text.lines().enumerate() {
            let Some(name) = declared(line.trim_start()) else { continue };
            let Some((_, better)) = NAMES.iter().find(|(bad, _)| *bad == name) else { continue };
            wrong.push(format!("{shown}:{}: `{name}`: {better}", at + 1));
        }
    }
    assert!(wrong.is_empty(), "{} to rename:\n{}", wrong.len(), wrong.join("\n"));
}
