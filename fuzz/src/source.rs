//! Reads a fuzz input as a series of decisions. A decision is a number below a bound that the caller chooses. After the
//! end of the input, every decision is 0.

/// The part of the fuzz input that has not been read.
pub struct Source<'a>(&'a [u8]);

impl<'a> Source<'a> {
    /// Creates a source that reads all of `bytes`.
    pub fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    /// Returns whether the input is used up. If so, every further decision is 0.
    pub fn is_over(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the next byte of the input, or 0 after its end.
    pub fn byte(&mut self) -> u8 {
        match self.0.split_first() {
            Some((&first, rest)) => {
                self.0 = rest;
                first
            }
            None => 0,
        }
    }

    /// Returns a number of 32 bits. Small and extreme numbers are more likely than others.
    pub fn number(&mut self) -> u32 {
        match self.byte() % 4 {
            0 => u32::from(self.byte()),
            1 => u32::from(self.byte()) << 8 | u32::from(self.byte()),
            2 => u32::MAX - u32::from(self.byte()),
            _ => u32::from_be_bytes([self.byte(), self.byte(), self.byte(), self.byte()]),
        }
    }

    /// Returns a number below `bound`. `bound` must not be zero.
    pub fn below(&mut self, bound: u32) -> u32 {
        let number = if bound <= 256 {
            u32::from(self.byte())
        } else {
            u32::from(self.byte()) << 16 | u32::from(self.byte()) << 8 | u32::from(self.byte())
        };
        number % bound
    }

    /// Returns true once in `n` on average.
    pub fn one_in(&mut self, n: u32) -> bool {
        self.below(n) == 0
    }

    /// Returns one of `choices`, as the input decides.
    pub fn pick<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[self.below(choices.len() as u32) as usize]
    }

    /// Returns at most `most` bytes of the input.
    pub fn bytes(&mut self, most: usize) -> &'a [u8] {
        let length = (self.below(most as u32 + 1) as usize).min(self.0.len());
        let (bytes, rest) = self.0.split_at(length);
        self.0 = rest;
        bytes
    }
}
