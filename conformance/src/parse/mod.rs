//! Parses the tokens of a packetdrill script. The grammar is that of packetdrill, as far as SCTP needs it.
//!
//! This module parses the events, calls and values of a script. The module `packet` parses packets.

mod packet;

use crate::lex::{PlacedToken, SyntaxError, Token, tokens};
use crate::script::{Action, Call, Event, Node, Script, Time, Value};
use std::collections::BTreeSet;

/// Parses a script.
pub(crate) fn script(text: &str, defines: &BTreeSet<String>) -> Result<Script, SyntaxError> {
    let tokens = tokens(text, defines)?;
    let mut parser = Parser { tokens: &tokens, at: 0, depth: 0 };
    let mut script = Script::default();
    while let Some(Token::Flag(name)) = parser.peek() {
        let name = name.clone();
        parser.at += 1;
        let value = if parser.eat('=') { parser.option_value()? } else { String::new() };
        script.options.push((name, value));
    }
    // A shell command before the first event of the script sets up the host.
    if let Some(Token::Shell(command)) = parser.peek() {
        let action = Action::Shell(command.clone());
        script.events.push(Event { line: parser.line(), time: Time::At(0), action });
        parser.at += 1;
    }
    while parser.at < tokens.len() {
        // A shell command after the last event of the script cleans up the host.
        if let (Some(Token::Shell(command)), true) = (parser.peek(), parser.at + 1 == tokens.len()) {
            let action = Action::Shell(command.clone());
            script.events.push(Event { line: parser.line(), time: Time::Any, action });
            break;
        }
        let event = parser.event()?;
        script.events.push(event);
    }
    Ok(script)
}

/// The maximum nesting depth of values in a script.
const DEEPEST: u32 = 50;

struct Parser<'a> {
    tokens: &'a [PlacedToken],
    at: usize,
    depth: u32,
}

impl<'a> Parser<'a> {
    fn peek(&self) -> Option<&'a Token> {
        self.tokens.get(self.at).map(|spot| &spot.token)
    }

    fn peek_at(&self, ahead: usize) -> Option<&'a Token> {
        self.tokens.get(self.at + ahead).map(|spot| &spot.token)
    }

    fn line(&self) -> usize {
        self.tokens.get(self.at).or(self.tokens.last()).map_or(1, |spot| spot.line)
    }

    fn fault<T>(&self, what: impl Into<String>) -> Result<T, SyntaxError> {
        let seen = match self.peek() {
            Some(token) => format!("{token:?}"),
            None => "the end".to_owned(),
        };
        Err(SyntaxError::at(self.line(), format!("{}, not {seen}", what.into())))
    }

    fn eat(&mut self, sign: char) -> bool {
        let found = self.peek() == Some(&Token::Sign(sign));
        self.at += usize::from(found);
        found
    }

    fn eat_word(&mut self, word: &str) -> bool {
        let found = matches!(self.peek(), Some(Token::Word(name)) if name == word);
        self.at += usize::from(found);
        found
    }

    fn need(&mut self, sign: char) -> Result<(), SyntaxError> {
        if self.eat(sign) { Ok(()) } else { self.fault(format!("'{sign}' is expected")) }
    }

    fn word(&mut self) -> Result<String, SyntaxError> {
        match self.peek() {
            Some(Token::Word(word)) => {
                self.at += 1;
                Ok(word.clone())
            }
            _ => self.fault("a name is expected"),
        }
    }

    fn int(&mut self) -> Result<i64, SyntaxError> {
        match self.peek() {
            Some(&Token::Int(n)) => {
                self.at += 1;
                Ok(n)
            }
            _ => self.fault("an integer is expected"),
        }
    }

    fn number<T: TryFrom<i64>>(&mut self) -> Result<T, SyntaxError> {
        let line = self.line();
        let n = self.int()?;
        T::try_from(n).map_err(|_| SyntaxError::at(line, format!("{n} is out of range")))
    }

    fn option_value(&mut self) -> Result<String, SyntaxError> {
        let text = match self.peek() {
            Some(Token::Int(n)) => n.to_string(),
            Some(&Token::Micros(us)) => format!("{}.{:06}", us / 1_000_000, us % 1_000_000),
            Some(Token::Word(text) | Token::Text(text)) => text.clone(),
            Some(Token::Address(address)) => address.to_string(),
            _ => return self.fault("the value of an option is expected"),
        };
        self.at += 1;
        if self.eat('=') {
            return Ok(format!("{text}={}", self.option_value()?));
        }
        Ok(text)
    }

    // Events.

    fn micros(&mut self) -> Result<i64, SyntaxError> {
        let us = match self.peek() {
            Some(&Token::Micros(us)) => us,
            Some(&Token::Int(seconds)) => seconds.saturating_mul(1_000_000),
            _ => return self.fault("a time is expected"),
        };
        /// One year, in microseconds. A later time is a mistake in the script. With this limit, sums of times do not
        /// overflow.
        const MOST: i64 = 365 * 86_400 * 1_000_000;
        if !(0..=MOST).contains(&us) {
            return self.fault("a time between 0 and a year is expected");
        }
        self.at += 1;
        Ok(us)
    }

    fn event(&mut self) -> Result<Event, SyntaxError> {
        let line = self.line();
        let mut until = None;
        let time = if self.eat('*') {
            Time::Any
        } else {
            let relative = self.eat('+');
            let from = self.micros()?;
            if self.eat('~') {
                self.eat('+');
                let to = self.micros()?;
                if relative { Time::AfterBetween(from, to) } else { Time::Between(from, to) }
            } else {
                if self.peek() == Some(&Token::Dots) {
                    self.at += 1;
                    until = Some(self.micros()?);
                }
                if relative { Time::After(from) } else { Time::At(from) }
            }
        };
        let action = match self.peek() {
            Some(Token::Shell(command)) => {
                self.at += 1;
                Action::Shell(command.clone())
            }
            Some(Token::Code(code)) => {
                self.at += 1;
                Action::Code(code.clone())
            }
            Some(Token::Sign('<')) => {
                self.at += 1;
                Action::Inbound(self.packet()?)
            }
            Some(Token::Sign('>')) => {
                self.at += 1;
                Action::Outbound(self.packet()?)
            }
            _ => Action::Call(self.call(until)?),
        };
        Ok(Event { line, time, action })
    }

    fn call(&mut self, until: Option<i64>) -> Result<Call, SyntaxError> {
        let name = self.word()?;
        self.need('(')?;
        let args = self.values(')')?;
        let mut call = Call { name, args, result: Value::Any, errno: None, until };
        if !self.eat('=') {
            return Ok(call);
        }
        call.result = self.value()?;
        if let Some(Token::Word(errno)) = self.peek()
            && errno.starts_with('E')
        {
            call.errno = Some(errno.clone());
            self.at += 1;
        }
        // An explanation in parentheses may follow a call's result. It explains a flag or an error number, and is
        // skipped.
        if self.eat('(') {
            while !self.eat(')') {
                if self.peek().is_none() {
                    return self.fault("')' is expected");
                }
                self.at += 1;
            }
        }
        Ok(call)
    }

    // Values.

    fn node(&mut self) -> Result<Node, SyntaxError> {
        self.deeper()?;
        let mut node = Node { name: self.word()?, ..Node::default() };
        self.need('[')?;
        while !self.eat(']') {
            match (self.peek(), self.peek_at(1)) {
                (Some(Token::Dots), _) => {
                    self.at += 1;
                    node.open = true;
                }
                (Some(Token::Word(key)), Some(Token::Sign('='))) => {
                    let key = key.clone();
                    self.at += 2;
                    let value = self.value()?;
                    node.fields.push((key, value));
                }
                (Some(Token::Word(_)), Some(Token::Sign('['))) => node.items.push(self.node()?),
                _ => return self.fault("a field or an item is expected"),
            }
            if !self.eat(',') {
                self.need(']')?;
                break;
            }
        }
        self.depth -= 1;
        Ok(node)
    }

    fn deeper(&mut self) -> Result<(), SyntaxError> {
        self.depth += 1;
        if self.depth > DEEPEST { self.fault("this is nested too deeply") } else { Ok(()) }
    }

    /// Parses values separated by commas, up to the character `close`.
    fn values(&mut self, close: char) -> Result<Vec<Value>, SyntaxError> {
        let mut values = Vec::new();
        if self.eat(close) {
            return Ok(values);
        }
        loop {
            values.push(self.value()?);
            if !self.eat(',') {
                break;
            }
        }
        self.need(close)?;
        Ok(values)
    }

    fn value(&mut self) -> Result<Value, SyntaxError> {
        let first = self.single()?;
        if self.peek() != Some(&Token::Sign('|')) {
            return Ok(first);
        }
        let mut all = vec![first];
        while self.eat('|') {
            all.push(self.single()?);
        }
        Ok(Value::Or(all))
    }

    fn single(&mut self) -> Result<Value, SyntaxError> {
        let token = self.peek();
        if let Some(Token::Word(_)) = token
            && self.peek_at(1) == Some(&Token::Sign('['))
        {
            return Ok(Value::Node(Box::new(self.node()?)));
        }
        let value = match token {
            Some(Token::Dots) => Value::Any,
            Some(&Token::Int(n)) => {
                self.at += 1;
                if self.eat(':') {
                    return Ok(Value::Pair(n, self.int()?));
                }
                return Ok(Value::Int(n));
            }
            Some(Token::Text(text)) => Value::Text(text.clone()),
            Some(&Token::Address(address)) => Value::Address(address),
            Some(Token::Word(word)) => {
                self.at += 1;
                if self.eat('(') {
                    self.deeper()?;
                    let args = self.values(')')?;
                    self.depth -= 1;
                    return Ok(Value::Call(word.clone(), args));
                }
                return Ok(Value::Word(word.clone()));
            }
            Some(Token::Sign('[')) => {
                self.at += 1;
                self.deeper()?;
                let items = self.values(']')?;
                self.depth -= 1;
                return Ok(Value::List(items));
            }
            Some(Token::Sign('{')) => {
                self.at += 1;
                self.deeper()?;
                let fields = self.members()?;
                self.depth -= 1;
                return Ok(Value::Struct(fields));
            }
            _ => return self.fault("a value is expected"),
        };
        self.at += 1;
        Ok(value)
    }

    /// Parses `key=value`, `key(length)=value` or bare values, up to the closing brace.
    fn members(&mut self) -> Result<Vec<(String, Value)>, SyntaxError> {
        let mut fields = Vec::new();
        if self.eat('}') {
            return Ok(fields);
        }
        loop {
            let value = self.value()?;
            if self.eat('=') {
                let key = match value {
                    Value::Word(key) | Value::Call(key, _) => key,
                    _ => return self.fault("a key is expected before '='"),
                };
                fields.push((key, self.value()?));
            } else {
                fields.push((String::new(), value));
            }
            if !self.eat(',') {
                break;
            }
        }
        self.need('}')?;
        Ok(fields)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Script {
        script(text, &BTreeSet::from(["FreeBSD".to_owned()])).expect("a valid script")
    }

    #[test]
    fn calls_carry_results_errors_and_notes() {
        let script = parse("+0.1 connect(3, ..., ...) = -1 EINPROGRESS (Operation now in progress)");
        let Action::Call(call) = &script.events[0].action else { panic!("a call") };
        assert_eq!((call.result.int(), call.errno.as_deref()), (Some(-1), Some("EINPROGRESS")));
        assert_eq!(script.events[0].time, Time::After(100_000));
    }

    #[test]
    fn packets_nest_chunks_parameters_and_causes() {
        let text = "* > sctp(tag=3): ABORT[flgs=T, UNRESOLVABLE_ADDRESS[param=HOSTNAME_ADDRESS[addr=\"a\"]], ...];\
                    SACK[flgs=0, cum_tsn=1, a_rwnd=..., gaps=[2:3], dups=[]]";
        let script = parse(text);
        let Action::Outbound(packet) = &script.events[0].action else { panic!("a packet") };
        assert_eq!(packet.tag, Some(3));
        let printed = packet.body.to_string();
        assert!(printed.contains("param=HOSTNAME_ADDRESS[addr=\"a\"]") && printed.contains("gaps=[2:3]"));
    }

    #[test]
    fn mistakes_name_their_line() {
        let fault = script("0 socket(1) = 3\n+0 > tcp: S", &BTreeSet::new()).expect_err("no SCTP");
        assert_eq!(fault.line, 2);
        assert!(script(&format!("0 f({})", "[".repeat(10_000)), &BTreeSet::new()).is_err());
    }
}
