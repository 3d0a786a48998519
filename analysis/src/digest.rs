//! SHA-256 (FIPS 180-4): short names of what was read, by which a change is noticed.

/// Fractional parts of the square roots of the first 8 primes (FIPS 180-4, 5.3.3).
const START: [u32; 8] =
    [0x6a09_e667, 0xbb67_ae85, 0x3c6e_f372, 0xa54f_f53a, 0x510e_527f, 0x9b05_688c, 0x1f83_d9ab, 0x5be0_cd19];

/// A digest under way.
pub struct Digest {
    state: [u32; 8],
    /// Bytes that do not fill a block yet.
    rest: Vec<u8>,
    length: u64,
    constants: [u32; 64],
}

impl Default for Digest {
    fn default() -> Digest {
        Digest { state: START, rest: Vec::with_capacity(64), length: 0, constants: constants() }
    }
}

impl Digest {
    /// Takes more bytes in.
    pub fn update(&mut self, mut bytes: &[u8]) {
        self.length = self.length.wrapping_add(bytes.len() as u64);
        if !self.rest.is_empty() {
            let (filling, others) = bytes.split_at(bytes.len().min(64 - self.rest.len()));
            self.rest.extend_from_slice(filling);
            bytes = others;
            if self.rest.len() == 64 {
                let block = std::mem::take(&mut self.rest);
                self.block(&block);
            }
        }
        let blocks = bytes.chunks_exact(64);
        self.rest.extend_from_slice(blocks.remainder());
        blocks.for_each(|block| self.block(block));
    }

    /// 64 hexadecimal digits.
    pub fn hex(mut self) -> String {
        let bits = self.length.wrapping_mul(8);
        let mut end = std::mem::take(&mut self.rest);
        end.push(0x80);
        while end.len() % 64 != 56 {
            end.push(0);
        }
        end.extend_from_slice(&bits.to_be_bytes());
        end.chunks_exact(64).for_each(|block| self.block(block));
        self.state.iter().map(|word| format!("{word:08x}")).collect()
    }

    /// 6.2.2 of the standard.
    fn block(&mut self, block: &[u8]) {
        let mut schedule = [0u32; 64];
        for (word, bytes) in schedule.iter_mut().zip(block.chunks_exact(4)) {
            *word = u32::from_be_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
        }
        for t in 16..64 {
            let (w2, w15) = (schedule[t - 2], schedule[t - 15]);
            let low = w15.rotate_right(7) ^ w15.rotate_right(18) ^ (w15 >> 3);
            let high = w2.rotate_right(17) ^ w2.rotate_right(19) ^ (w2 >> 10);
            schedule[t] = high.wrapping_add(schedule[t - 7]).wrapping_add(low).wrapping_add(schedule[t - 16]);
        }
        let [mut a, mut b, mut c, mut d, mut e, mut f, mut g, mut h] = self.state;
        for (word, constant) in schedule.iter().zip(self.constants) {
            let of_e = e.rotate_right(6) ^ e.rotate_right(11) ^ e.rotate_right(25);
            let choice = (e & f) ^ (!e & g);
            let first = h.wrapping_add(of_e).wrapping_add(choice).wrapping_add(constant).wrapping_add(*word);
            let of_a = a.rotate_right(2) ^ a.rotate_right(13) ^ a.rotate_right(22);
            let majority = (a & b) ^ (a & c) ^ (b & c);
            (h, g, f, e) = (g, f, e, d.wrapping_add(first));
            (d, c, b, a) = (c, b, a, first.wrapping_add(of_a.wrapping_add(majority)));
        }
        for (word, new) in self.state.iter_mut().zip([a, b, c, d, e, f, g, h]) {
            *word = word.wrapping_add(new);
        }
    }
}

/// Digest of bytes as 64 hexadecimal digits.
pub fn sha256(bytes: &[u8]) -> String {
    let mut digest = Digest::default();
    digest.update(bytes);
    digest.hex()
}

/// The first 32 bits of the fractional parts of the cube roots of the first 64 primes (4.2.2).
fn constants() -> [u32; 64] {
    let is_prime = |n: &u128| (2..*n).take_while(|d| d * d <= *n).all(|d| n % d != 0);
    let mut primes = (2u128..).filter(is_prime);
    std::array::from_fn(|_| {
        // ⌊p^⅓ · 2^32⌋ is the whole cube root of p · 2^96.
        let cube = primes.next().unwrap_or(0) << 96;
        let (mut low, mut high) = (0u128, 1 << 36);
        while high - low > 1 {
            let middle = (low + high) / 2;
            *(if middle * middle * middle <= cube { &mut low } else { &mut high }) = middle;
        }
        low as u32
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Examples of the standard's secure hash page, and lengths around a block's.
    #[test]
    fn known_digests() {
        assert_eq!(sha256(b"abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
        assert_eq!(sha256(b""), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
        assert_eq!(
            sha256(b"abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq"),
            "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1"
        );
        let million = vec![b'a'; 1_000_000];
        let expected = "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0";
        assert_eq!(sha256(&million), expected);
        let mut pieces = Digest::default();
        million.chunks(97).for_each(|piece| pieces.update(piece));
        assert_eq!(pieces.hex(), expected);
    }
}
