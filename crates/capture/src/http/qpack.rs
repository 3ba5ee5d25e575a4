//! QPACK (RFC 9204): decodes the field sections of HTTP/3 with the dynamic table of each encoder.
//!
//! A QPACK encoder sends the entries of its dynamic table on a stream of its own. A field section may therefore be
//! captured before the entries that it needs. The beginning of the connection must have been captured.

use anabranch_wire::qpack::{integer, partial_integer, static_entry, string};
use std::collections::VecDeque;

/// The maximum size of a dynamic table in bytes (RFC 9204 §3.2.1).
const MAX_TABLE: usize = 1 << 16;
/// The maximum length in bytes of an instruction that is kept while it is incomplete.
const MAX_INSTRUCTION: usize = 1 << 16;
/// RFC 9204 §3.2.1: the size of an entry in addition to its name and its value.
const ENTRY: usize = 32;

/// The dynamic table of one encoder, as its instructions describe it.
#[derive(Debug, Default)]
pub(super) struct Table {
    /// The entries of the table. The oldest entry comes first.
    entries: VecDeque<(Vec<u8>, Vec<u8>)>,
    /// The number of entries that were ever inserted.
    inserted: u64,
    size: usize,
    capacity: usize,
    /// The capacity that the decoder allows in its SETTINGS. `None` if they were not captured.
    pub max_capacity: Option<u64>,
    /// The beginning of an instruction that is incomplete.
    partial: Vec<u8>,
    /// Whether an instruction could not be read, so that the table is not known.
    is_lost: bool,
}

/// The reason why an encoded field section cannot be decoded.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum SectionError {
    /// The section needs entries that have not been inserted yet.
    Blocked,
    Damaged,
}

impl From<&'static str> for SectionError {
    fn from(_: &'static str) -> Self {
        Self::Damaged
    }
}

impl Table {
    /// Processes the next bytes of the encoder's stream.
    pub fn instructions(&mut self, bytes: &[u8]) {
        if self.is_lost {
            return;
        }
        self.partial.extend_from_slice(bytes);
        let all = std::mem::take(&mut self.partial);
        let mut rest = &all[..];
        while !rest.is_empty() && !self.is_lost {
            match self.instruction(&mut rest) {
                Ok(Some(())) => {}
                Ok(None) => break,
                Err(_) => self.is_lost = true,
            }
        }
        self.is_lost |= rest.len() > MAX_INSTRUCTION;
        if !self.is_lost {
            self.partial = rest.to_vec();
        }
    }

    /// RFC 9204 §4.3: processes one instruction. Returns `None`, and leaves `rest` unchanged, if it is incomplete.
    fn instruction(&mut self, rest: &mut &[u8]) -> Result<Option<()>, &'static str> {
        let Some(&first) = rest.first() else { return Ok(None) };
        let (mut after, mut buffer) = (*rest, Vec::new());
        if first & 0x80 != 0 || first & 0xc0 == 0x40 {
            let name = if first & 0x80 == 0 {
                if !has_string(after, 5) {
                    return Ok(None);
                }
                string(&mut after, 5, &mut buffer)?.to_vec()
            } else {
                let Some(index) = partial_integer(&mut after, 6)? else { return Ok(None) };
                if first & 0x40 != 0 { static_entry(index)?.0.into() } else { self.recent(index)?.0.clone() }
            };
            if !has_string(after, 7) {
                return Ok(None);
            }
            let value = string(&mut after, 7, &mut buffer)?.to_vec();
            self.insert(name, value);
        } else {
            let Some(number) = partial_integer(&mut after, 5)? else { return Ok(None) };
            if first & 0x20 != 0 {
                self.capacity = usize::try_from(number).unwrap_or(usize::MAX).min(MAX_TABLE);
                self.evict();
            } else {
                let (name, value) = self.recent(number)?.clone();
                self.insert(name, value);
            }
        }
        *rest = after;
        Ok(Some(()))
    }

    fn insert(&mut self, name: Vec<u8>, value: Vec<u8>) {
        self.size += name.len() + value.len() + ENTRY;
        self.entries.push_back((name, value));
        self.inserted += 1;
        self.evict();
    }

    fn evict(&mut self) {
        while self.size > self.capacity
            && let Some((name, value)) = self.entries.pop_front()
        {
            self.size -= name.len() + value.len() + ENTRY;
        }
    }

    /// Returns an entry of the dynamic table by its distance from the newest entry.
    fn recent(&self, distance: u64) -> Result<&(Vec<u8>, Vec<u8>), &'static str> {
        self.entry(self.inserted.checked_sub(1).and_then(|newest| newest.checked_sub(distance)))
    }

    /// Returns an entry of the dynamic table by its absolute index.
    fn entry(&self, index: Option<u64>) -> Result<&(Vec<u8>, Vec<u8>), &'static str> {
        let dropped = self.inserted - self.entries.len() as u64;
        let index = index.and_then(|index| index.checked_sub(dropped));
        index.and_then(|index| self.entries.get(usize::try_from(index).ok()?)).ok_or("there is no such entry")
    }

    /// Decodes a field section. Calls `field` with the name and value of each field.
    ///
    /// # Errors
    /// [`SectionError`].
    pub fn decode(&self, mut rest: &[u8], mut field: impl FnMut(&[u8], &[u8])) -> Result<(), SectionError> {
        let required = self.required(integer(&mut rest, 8)?)?;
        if required > self.inserted {
            return Err(if self.is_lost { SectionError::Damaged } else { SectionError::Blocked });
        }
        let is_below = rest.first().is_some_and(|byte| byte & 0x80 != 0);
        let delta = integer(&mut rest, 7)?;
        // RFC 9204 §4.5.1.2.
        let base = if is_below {
            required.checked_sub(delta + 1).ok_or(SectionError::Damaged)?
        } else {
            required + delta
        };
        let relative = |index: u64| self.entry(base.checked_sub(1).and_then(|last| last.checked_sub(index)));
        let (mut name_buffer, mut value_buffer) = (Vec::new(), Vec::new());
        while let Some(&first) = rest.first() {
            // RFC 9204 §4.5.2 to §4.5.6: the first bits of a field select its representation.
            let name: &[u8] = match first >> 4 {
                12.. => {
                    let (name, value) = static_entry(integer(&mut rest, 6)?)?;
                    field(name.as_bytes(), value.as_bytes());
                    continue;
                }
                8..12 => {
                    let (name, value) = relative(integer(&mut rest, 6)?)?;
                    field(name, value);
                    continue;
                }
                1 => {
                    let (name, value) = self.entry(Some(base + integer(&mut rest, 4)?))?;
                    field(name, value);
                    continue;
                }
                5 | 7 => static_entry(integer(&mut rest, 4)?)?.0.as_bytes(),
                4 | 6 => &relative(integer(&mut rest, 4)?)?.0,
                2 | 3 => string(&mut rest, 3, &mut name_buffer)?,
                _ => &self.entry(Some(base + integer(&mut rest, 3)?))?.0,
            };
            field(name, string(&mut rest, 7, &mut value_buffer)?);
        }
        Ok(())
    }

    /// RFC 9204 §4.5.1.1: returns the Required Insert Count of a section.
    fn required(&self, encoded: u64) -> Result<u64, SectionError> {
        if encoded == 0 {
            return Ok(0);
        }
        let max_entries = self.max_capacity.unwrap_or(self.capacity as u64) / ENTRY as u64;
        let (range, most) = (2 * max_entries, self.inserted + max_entries);
        if range == 0 && self.inserted == 0 {
            // The head must wait, because neither the SETTINGS nor the first instruction has been captured yet.
            return Err(SectionError::Blocked);
        }
        if encoded > range {
            return Err(SectionError::Damaged);
        }
        let required = most / range * range + encoded - 1;
        if required <= most { Ok(required) } else { required.checked_sub(range).ok_or(SectionError::Damaged) }
    }
}

/// Returns whether a string is complete.
fn has_string(mut rest: &[u8], prefix: u32) -> bool {
    // An invalid length counts as complete. The error is reported when the string is read.
    partial_integer(&mut rest, prefix).map_or(true, |length| length.is_some_and(|n| n <= rest.len() as u64))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fields(table: &Table, section: &[u8]) -> Result<Vec<String>, SectionError> {
        let mut fields = Vec::new();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        table.decode(section, |name, value| fields.push(format!("{}: {}", text(name), text(value))))?;
        Ok(fields)
    }

    /// The examples of RFC 9204 B.2 to B.5 must be decoded, even if the instructions arrive byte by byte.
    #[test]
    fn the_examples_of_the_rfc_are_read() {
        let mut table = Table { max_capacity: Some(220), ..Table::default() };
        let section = [0x03, 0x81, 0x10, 0x11];
        assert_eq!(fields(&table, &section), Err(SectionError::Blocked));
        let first = [&[0x3f, 0xbd, 0x01, 0xc0, 0x0f][..], b"www.example.com", &[0xc1, 0x0c], b"/sample/path"];
        for byte in first.concat() {
            table.instructions(&[byte]);
        }
        assert_eq!(table.size, 106);
        let expected = [":authority: www.example.com", ":path: /sample/path"];
        assert_eq!(fields(&table, &section).as_deref(), Ok(&expected.map(str::to_owned)[..]));
        table.instructions(&[&[0x4a][..], b"custom-key", &[0x0c], b"custom-value"].concat());
        table.instructions(&[0x02]);
        assert_eq!((table.size, table.inserted), (217, 4));
        let expected = [":authority: www.example.com", ":path: /", "custom-key: custom-value"];
        let found = fields(&table, &[0x05, 0x00, 0x80, 0xc1, 0x81]);
        assert_eq!(found.as_deref(), Ok(&expected.map(str::to_owned)[..]));
        // The insertion evicts the oldest entry.
        table.instructions(&[&[0x81, 0x0d][..], b"custom-value2"].concat());
        assert_eq!((table.size, table.entries.len(), table.inserted), (215, 4, 5));
    }

    #[test]
    fn damaged_instructions_and_sections_are_refused() {
        let mut table = Table { max_capacity: Some(220), ..Table::default() };
        table.instructions(&[0x3f, 0xbd, 0x01, 0x05]);
        assert!(table.is_lost, "there is no entry to duplicate");
        assert_eq!(fields(&table, &[0x02, 0x00, 0x80]), Err(SectionError::Damaged));
        assert_eq!(fields(&table, &[0x00, 0x00, 0x80]), Err(SectionError::Damaged));
        assert_eq!(fields(&table, &[0x00, 0x00, 0xd1]).as_deref(), Ok(&[":method: GET".to_owned()][..]));
        let mut endless = Table { capacity: 100, ..Table::default() };
        endless.instructions(&[0xc0, 0x7f, 0xff, 0xff, 0x7f]);
        endless.instructions(&[0; MAX_INSTRUCTION]);
        assert!(endless.is_lost && endless.partial.is_empty());
    }
}
