//! Numbers and strings as bytes.
//!
//! Unsigned integers are LEB128, in as few bytes as possible; signed ones are zigzag-coded first. Reals are the eight
//! bytes of their bits, low byte first. Strings and lists start with their length.

use super::DecodeError;

/// Appends to a file.
#[derive(Default)]
pub(super) struct Writer {
    pub(super) bytes: Vec<u8>,
}

impl Writer {
    pub(super) fn byte(&mut self, byte: u8) {
        self.bytes.push(byte);
    }

    pub(super) fn unsigned(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.bytes.push(value as u8 | 0x80);
            value >>= 7;
        }
        self.bytes.push(value as u8);
    }

    pub(super) fn signed(&mut self, value: i64) {
        self.unsigned(((value << 1) ^ (value >> 63)) as u64);
    }

    pub(super) fn bits(&mut self, value: u64) {
        self.bytes.extend_from_slice(&value.to_le_bytes());
    }

    pub(super) fn string(&mut self, text: &str) {
        self.unsigned(text.len() as u64);
        self.bytes.extend_from_slice(text.as_bytes());
    }

    pub(super) fn list<T>(&mut self, items: &[T], mut item: impl FnMut(&mut Self, &T)) {
        self.unsigned(items.len() as u64);
        items.iter().for_each(|entry| item(self, entry));
    }
}

/// Reads a file from front to back.
pub(super) struct Reader<'b> {
    bytes: &'b [u8],
    at: usize,
    /// Reads stop here: the end of the file or of the section.
    end: usize,
}

pub(super) type Decoded<T> = Result<T, DecodeError>;

impl<'b> Reader<'b> {
    pub(super) fn new(bytes: &'b [u8]) -> Self {
        Reader { bytes, at: 0, end: bytes.len() }
    }

    pub(super) fn offset(&self) -> usize {
        self.at
    }

    pub(super) fn remaining(&self) -> usize {
        self.end - self.at
    }

    /// An error at `offset`.
    pub(super) fn error(
        &self,
        offset: usize,
        what: &'static str,
        expected: impl Into<String>,
        found: impl Into<String>,
    ) -> DecodeError {
        DecodeError { offset, what, expected: expected.into(), found: found.into() }
    }

    /// A reader of the next `len` bytes, which this one skips.
    pub(super) fn part(&mut self, len: usize) -> Reader<'b> {
        let part = Reader { bytes: self.bytes, at: self.at, end: self.at + len };
        self.at += len;
        part
    }

    pub(super) fn take(&mut self, len: usize, what: &'static str) -> Decoded<&'b [u8]> {
        if len > self.remaining() {
            let expected = format!("{len} bytes");
            return Err(self.error(self.at, what, expected, format!("{} before the end", self.remaining())));
        }
        let taken = &self.bytes[self.at..self.at + len];
        self.at += len;
        Ok(taken)
    }

    pub(super) fn byte(&mut self, what: &'static str) -> Decoded<u8> {
        Ok(self.take(1, what)?[0])
    }

    /// An integer from 0 to `max`.
    pub(super) fn unsigned(&mut self, what: &'static str, max: u64) -> Decoded<u64> {
        let start = self.at;
        let mut value = 0u64;
        for shift in (0..64).step_by(7) {
            let byte = self.byte(what)?;
            let part = u64::from(byte & 0x7f);
            if part << shift >> shift != part || (byte == 0 && shift > 0) {
                return Err(self.error(start, what, "a number of 64 bits in its shortest form", "another encoding"));
            }
            value |= part << shift;
            if byte & 0x80 == 0 {
                return match value {
                    value if value <= max => Ok(value),
                    value => Err(self.error(start, what, format!("at most {max}"), value.to_string())),
                };
            }
        }
        Err(self.error(start, what, "a number of at most ten bytes", "a longer one"))
    }

    pub(super) fn u32(&mut self, what: &'static str) -> Decoded<u32> {
        self.unsigned(what, u32::MAX.into()).map(|value| value as u32)
    }

    pub(super) fn u16(&mut self, what: &'static str) -> Decoded<u16> {
        self.unsigned(what, u16::MAX.into()).map(|value| value as u16)
    }

    pub(super) fn signed(&mut self, what: &'static str) -> Decoded<i64> {
        let value = self.unsigned(what, u64::MAX)?;
        Ok((value >> 1) as i64 ^ -((value & 1) as i64))
    }

    pub(super) fn bits(&mut self, what: &'static str) -> Decoded<u64> {
        let bytes = self.take(8, what)?;
        Ok(u64::from_le_bytes(bytes.try_into().expect("eight bytes were taken")))
    }

    /// The length of a list whose entries take at least one byte each: more than what is left is refused before
    /// anything is allocated.
    pub(super) fn count(&mut self, what: &'static str) -> Decoded<usize> {
        let start = self.at;
        let count = self.unsigned(what, u64::MAX)?;
        if count > self.remaining() as u64 {
            let expected = format!("at most {}, for no more bytes are left", self.remaining());
            return Err(self.error(start, what, expected, count.to_string()));
        }
        Ok(count as usize)
    }

    pub(super) fn list<T>(
        &mut self,
        what: &'static str,
        mut item: impl FnMut(&mut Self) -> Decoded<T>,
    ) -> Decoded<Vec<T>> {
        // Not allocated at once: an entry may take many times more memory than bytes.
        (0..self.count(what)?).map(|_| item(self)).collect()
    }

    pub(super) fn string(&mut self, what: &'static str) -> Decoded<String> {
        let len = self.count(what)?;
        let start = self.at;
        match std::str::from_utf8(self.take(len, what)?) {
            Ok(text) => Ok(text.to_owned()),
            Err(error) => Err(self.error(start + error.valid_up_to(), what, "UTF-8", "other bytes")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_survive() {
        let mut writer = Writer::default();
        let values = [0, 1, -1, 63, 64, -65, i64::MAX, i64::MIN];
        values.iter().for_each(|&value| writer.signed(value));
        writer.unsigned(u64::MAX);
        let mut reader = Reader::new(&writer.bytes);
        for value in values {
            assert_eq!(reader.signed("value"), Ok(value));
        }
        assert_eq!(reader.unsigned("value", u64::MAX), Ok(u64::MAX));
        assert_eq!(reader.remaining(), 0);
    }

    #[test]
    fn an_integer_has_one_encoding() {
        for bytes in
            [&[0x80, 0][..], &[0x81, 0x80, 0], &[0xff; 11], &[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 2]]
        {
            assert!(Reader::new(bytes).unsigned("value", u64::MAX).is_err(), "{bytes:?}");
        }
    }
}
