//! Splits the text of a packetdrill script into tokens, each with its line number.
//!
//! This module defines the syntax of comments, `#ifdef`, numbers, addresses and strings in scripts.

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// A token of the packetdrill script language.
#[derive(Clone, PartialEq, Debug)]
pub(crate) enum Token {
    /// A name: letters, digits, underscores.
    Word(String),
    /// An integer, decimal or hexadecimal.
    Int(i64),
    /// A number of seconds with a decimal point, converted to microseconds.
    Micros(i64),
    /// A string in double quotes.
    Text(String),
    /// A shell command: the text between backticks.
    Shell(String),
    /// Python code: the text between `%{` and `}%`.
    Code(String),
    /// An option line of the script, `--name`.
    Flag(String),
    /// An IPv4 or IPv6 address.
    Address(IpAddr),
    /// Three dots, which stand for any value.
    Dots,
    /// Any other character, for example a parenthesis.
    Sign(char),
}

/// A token, and the number of the line on which it begins.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct PlacedToken {
    pub(crate) token: Token,
    pub(crate) line: usize,
}

/// A mistake in a script's text, with its line.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct SyntaxError {
    pub(crate) line: usize,
    pub(crate) message: String,
}

impl SyntaxError {
    pub(crate) fn at(line: usize, what: impl Into<String>) -> Self {
        Self { line, message: what.into() }
    }
}

/// Splits `text` into tokens. The branch of an `#ifdef` is taken if its name is in `defines`.
pub(crate) fn tokens(text: &str, defines: &BTreeSet<String>) -> Result<Vec<PlacedToken>, SyntaxError> {
    let mut lexer = Lexer { rest: text, line: 1, out: Vec::new() };
    let mut branch: Option<(usize, bool)> = None;
    while !lexer.rest.is_empty() {
        if let Some((from, taken)) = branch {
            if lexer.eat("#endif") {
                branch = None;
                continue;
            }
            if !taken {
                lexer.skip_char();
                continue;
            }
            if lexer.rest.starts_with("#ifdef") {
                return Err(SyntaxError::at(lexer.line, format!("#ifdef inside the one of line {from}")));
            }
        }
        if lexer.eat("#ifdef") {
            let line = lexer.line;
            let after = lexer.rest.trim_start_matches([' ', '\t']);
            let name: String = after.chars().take_while(|&c| is_word(c)).collect();
            if name.is_empty() {
                return Err(SyntaxError::at(line, "#ifdef without a name"));
            }
            lexer.rest = &after[name.len()..];
            branch = Some((line, defines.contains(&name)));
            continue;
        }
        lexer.token()?;
    }
    match branch {
        Some((line, _)) => Err(SyntaxError::at(line, "#ifdef without #endif")),
        None => Ok(lexer.out),
    }
}

fn is_word(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_'
}

struct Lexer<'a> {
    rest: &'a str,
    line: usize,
    out: Vec<PlacedToken>,
}

impl<'a> Lexer<'a> {
    fn eat(&mut self, text: &str) -> bool {
        match self.rest.strip_prefix(text) {
            Some(rest) => {
                self.rest = rest;
                true
            }
            None => false,
        }
    }

    fn skip_char(&mut self) {
        let mut chars = self.rest.chars();
        if chars.next() == Some('\n') {
            self.line += 1;
        }
        self.rest = chars.as_str();
    }

    /// Returns the text up to the marker `end`. Consumes this text and the marker.
    fn until(&mut self, end: &str, what: &str) -> Result<&'a str, SyntaxError> {
        let Some(at) = self.rest.find(end) else {
            return Err(SyntaxError::at(self.line, format!("{what} does not end")));
        };
        let inside = &self.rest[..at];
        self.line += inside.matches('\n').count();
        self.rest = &self.rest[at + end.len()..];
        Ok(inside)
    }

    fn push(&mut self, line: usize, token: Token) {
        self.out.push(PlacedToken { token, line });
    }

    fn token(&mut self) -> Result<(), SyntaxError> {
        let line = self.line;
        let Some(first) = self.rest.chars().next() else {
            return Ok(());
        };
        if first.is_whitespace() {
            self.skip_char();
        } else if self.rest.starts_with("//") {
            let end = self.rest.find('\n').unwrap_or(self.rest.len());
            self.rest = &self.rest[end..];
        } else if self.eat("/*") {
            self.until("*/", "the comment")?;
        } else if self.eat("%{") {
            let code = self.until("}%", "the code")?.trim().to_owned();
            self.push(line, Token::Code(code));
        } else if self.eat("\"") {
            let text = self.until("\"", "the text")?.to_owned();
            self.push(line, Token::Text(text));
        } else if self.eat("`") {
            let text = self.until("`", "the command")?.to_owned();
            self.push(line, Token::Shell(text));
        } else if self.eat("...") {
            self.push(line, Token::Dots);
        } else if self.rest.starts_with("--") && self.rest[2..].starts_with(|c: char| c.is_ascii_alphabetic())
        {
            self.rest = &self.rest[2..];
            let name = self.word();
            self.push(line, Token::Flag(name));
        } else if let Some(address) = self.address() {
            self.push(line, Token::Address(address));
        } else if let Some(number) = self.number()? {
            self.push(line, number);
        } else if is_word(first) {
            let word = self.word();
            self.push(line, Token::Word(word));
        } else {
            self.skip_char();
            self.push(line, Token::Sign(first));
        }
        Ok(())
    }

    fn word(&mut self) -> String {
        let end = self.rest.find(|c| !is_word(c)).unwrap_or(self.rest.len());
        let word = self.rest[..end].to_owned();
        self.rest = &self.rest[end..];
        word
    }

    /// Reads an address, if the whole next word is an address.
    fn address(&mut self) -> Option<IpAddr> {
        let end = self.rest.find(|c: char| !(c.is_ascii_hexdigit() || c == ':' || c == '.'))?;
        let text = &self.rest[..end];
        let next_is_word = self.rest[end..].starts_with(is_word);
        // After an IPv4 address, a `:` begins a port. Text with dots may also be a range of times, as in `0.1...2`.
        let v4_end = text.find(':').unwrap_or(text.len());
        if !next_is_word && let Ok(v4) = text[..v4_end].parse::<Ipv4Addr>() {
            self.rest = &self.rest[v4_end..];
            return Some(v4.into());
        }
        if !next_is_word && text.matches(':').count() > 1 {
            // In `::1:` the last colon is not part of the address.
            for candidate in [text, text.strip_suffix(':').unwrap_or(text)] {
                if let Ok(v6) = candidate.parse::<Ipv6Addr>() {
                    self.rest = &self.rest[candidate.len()..];
                    return Some(v6.into());
                }
            }
        }
        None
    }

    fn number(&mut self) -> Result<Option<Token>, SyntaxError> {
        let (sign, digits) = match self.rest.strip_prefix('-') {
            Some(after) if after.starts_with(|c: char| c.is_ascii_digit() || c == '.') => (-1, after),
            _ => (1, self.rest),
        };
        let whole_end = digits.find(|c: char| !c.is_ascii_digit()).unwrap_or(digits.len());
        let (whole, after) = digits.split_at(whole_end);
        let too_large = |_| SyntaxError::at(self.line, "a number is too large");
        if sign == 1 && whole == "0" && after.starts_with(['x', 'X']) {
            let hex = &after[1..];
            let end = hex.find(|c: char| !c.is_ascii_hexdigit()).unwrap_or(hex.len());
            let value = i64::from_str_radix(&hex[..end], 16).map_err(too_large)?;
            self.rest = &hex[end..];
            return Ok(Some(Token::Int(value)));
        }
        if let Some(fraction) =
            after.strip_prefix('.').filter(|f| f.starts_with(|c: char| c.is_ascii_digit()))
        {
            let end = fraction.find(|c: char| !c.is_ascii_digit()).unwrap_or(fraction.len());
            let seconds: i64 = if whole.is_empty() { 0 } else { whole.parse().map_err(too_large)? };
            let six: String = fraction[..end].chars().chain("000000".chars()).take(6).collect();
            let micros: i64 = six.parse().map_err(too_large)?;
            let total = seconds.checked_mul(1_000_000).and_then(|s| s.checked_add(micros));
            let total = total.ok_or_else(|| SyntaxError::at(self.line, "a number is too large"))?;
            self.rest = &fraction[end..];
            return Ok(Some(Token::Micros(sign * total)));
        }
        // A word may begin with digits, such as `3com`.
        if whole.is_empty() || after.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_') {
            return Ok(None);
        }
        let value: i64 = whole.parse().map_err(too_large)?;
        self.rest = after;
        Ok(Some(Token::Int(sign * value)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(text: &str) -> Vec<Token> {
        let defines = BTreeSet::from(["FreeBSD".to_owned()]);
        tokens(text, &defines).expect("valid text").into_iter().map(|spot| spot.token).collect()
    }

    #[test]
    fn numbers_addresses_and_ranges_are_told_apart() {
        assert_eq!(all("+0.1...2"), [Token::Sign('+'), Token::Micros(100_000), Token::Dots, Token::Int(2)]);
        assert_eq!(all("[2:3]")[1..4], [Token::Int(2), Token::Sign(':'), Token::Int(3)]);
        assert_eq!(all("0xc0cc -1"), [Token::Int(0xc0cc), Token::Int(-1)]);
        assert_eq!(all("1.1.1.1 "), [Token::Address(IpAddr::from([1, 1, 1, 1]))]);
        assert!(matches!(all("fe80::250:56ff:fe24:9e6]")[0], Token::Address(IpAddr::V6(_))));
    }

    #[test]
    fn only_the_defined_branch_counts() {
        let text = "1\n#ifdef Linux\n2 \"\n#endif\n#ifdef FreeBSD\n3\n#endif\n4";
        assert_eq!(all(text), [Token::Int(1), Token::Int(3), Token::Int(4)]);
        let fault = tokens("#ifdef Linux\n", &BTreeSet::new()).expect_err("no #endif");
        assert_eq!(fault.line, 1);
    }
}
