//! Reading numbers from a mapped section.

/// Bytes of a mapped section.
#[derive(Clone, Copy)]
pub struct Bytes {
    at: usize,
    end: usize,
}

/// A number of variable length.
struct Leb {
    value: u64,
    /// How many it has.
    bits: u32,
    /// Its last bit is set.
    is_negative: bool,
}

impl Bytes {
    /// Address of the next.
    pub fn at(&self) -> usize {
        self.at
    }

    /// The same from an address on.
    pub fn from(&self, at: usize) -> Bytes {
        Bytes { at, end: self.end }
    }

    /// A record that begins with its length.
    ///
    /// # Safety
    /// One lies there.
    pub unsafe fn record(at: usize) -> Option<Bytes> {
        /// Of the form for sections beyond 4 GiB.
        const LONG: u32 = u32::MAX;
        // SAFETY: a record of the section.
        let length = unsafe { (at as *const u32).read_unaligned() };
        let begin = at.checked_add(4)?;
        (length != LONG && length != 0)
            .then_some(Bytes { at: begin, end: begin.checked_add(length as usize)? })
    }

    /// True if none is left.
    pub fn is_empty(&self) -> bool {
        self.at >= self.end
    }

    /// Skips some.
    pub fn skip(&mut self, bytes: usize) -> Option<()> {
        self.at = self.at.checked_add(bytes).filter(|at| *at <= self.end)?;
        Some(())
    }

    fn number<T>(&mut self) -> Option<T> {
        let at = self.at;
        self.skip(size_of::<T>())?;
        // SAFETY: inside the record, which is mapped; used only for integers.
        Some(unsafe { (at as *const T).read_unaligned() })
    }

    /// One byte.
    pub fn u8(&mut self) -> Option<u8> {
        self.number()
    }

    /// Two bytes.
    pub fn u16(&mut self) -> Option<u16> {
        self.number()
    }

    /// Four bytes.
    pub fn u32(&mut self) -> Option<u32> {
        self.number()
    }

    /// Eight bytes.
    pub fn u64(&mut self) -> Option<u64> {
        self.number()
    }

    /// ULEB128
    pub fn unsigned(&mut self) -> Option<u64> {
        self.leb().map(|leb| leb.value)
    }

    /// SLEB128
    pub fn signed(&mut self) -> Option<i64> {
        let Leb { value, bits, is_negative } = self.leb()?;
        let sign = if is_negative && bits < 64 { u64::MAX << bits } else { 0 };
        Some((value | sign) as i64)
    }

    fn leb(&mut self) -> Option<Leb> {
        let (mut value, mut bits) = (0u64, 0);
        loop {
            let byte = self.u8()?;
            if bits < 64 {
                value |= u64::from(byte & 0x7f) << bits;
            }
            bits += 7;
            if byte & 0x80 == 0 {
                return Some(Leb { value, bits, is_negative: byte & 0x40 != 0 });
            }
        }
    }

    /// A length and as many bytes.
    pub fn block(&mut self) -> Option<Bytes> {
        let length = self.unsigned()? as usize;
        let at = self.at;
        self.skip(length)?;
        Some(Bytes { at, end: self.at })
    }

    /// The operation and its offset.
    pub fn register_and_offset(&mut self, operation: u8) -> Option<i32> {
        (self.u8()? == operation).then_some(())?;
        i32::try_from(self.signed()?).ok()
    }
}
