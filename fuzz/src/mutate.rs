//! Creates inputs: changed entries of the corpus, or random bytes.

use anabranch_base::Rng;

/// Values at which behaviour often changes.
const EDGES: [u32; 12] = [0, 1, 2, 3, 4, 7, 8, 0x7f, 0x80, 0xff, 0x7fff_ffff, 0xffff_ffff];

/// Returns an input of at most about `length` bytes.
pub fn input(rng: &mut Rng, corpus: &[Vec<u8>], length: usize) -> Vec<u8> {
    if corpus.is_empty() || rng.below(20) == 0 {
        let mut bytes = vec![0; rng.below(length as u64 + 1) as usize];
        rng.fill(&mut bytes);
        return bytes;
    }
    let mut bytes = pick(rng, corpus).clone();
    for _ in 0..=rng.below(8) {
        change(rng, &mut bytes, corpus);
    }
    bytes.truncate(4 * length);
    bytes
}

fn pick<'a>(rng: &mut Rng, corpus: &'a [Vec<u8>]) -> &'a Vec<u8> {
    &corpus[rng.below(corpus.len() as u64) as usize]
}

fn change(rng: &mut Rng, bytes: &mut Vec<u8>, corpus: &[Vec<u8>]) {
    if bytes.is_empty() {
        bytes.push(rng.next_u32() as u8);
    }
    let at = rng.below(bytes.len() as u64) as usize;
    let end = at + rng.below((bytes.len() - at).min(64) as u64 + 1) as usize;
    match rng.below(9) {
        0 => bytes[at] ^= 1 << rng.below(8),
        1 => bytes[at] = rng.next_u32() as u8,
        2 => {
            // Overwrites two or four bytes with a value that may be taken for a length or a count.
            let value = EDGES[rng.below(EDGES.len() as u64) as usize].to_be_bytes();
            let width = if rng.below(2) == 0 { 2 } else { 4 };
            for (to, from) in bytes[at..].iter_mut().zip(&value[4 - width..]) {
                *to = *from;
            }
        }
        3 => bytes[at] = bytes[at].wrapping_add(rng.below(9) as u8).wrapping_sub(4),
        4 => drop(bytes.drain(at..end)),
        5 => {
            let part = bytes[at..end].to_vec();
            bytes.splice(at..at, part);
        }
        6 => bytes.truncate(at),
        7 => {
            let mut part = vec![0; (end - at).min(16)];
            rng.fill(&mut part);
            bytes.splice(at..at, part);
        }
        _ => {
            let second = pick(rng, corpus);
            let from = rng.below(second.len() as u64 + 1) as usize;
            let to = from + rng.below((second.len() - from).min(256) as u64 + 1) as usize;
            bytes.splice(at..end, second[from..to].iter().copied());
        }
    }
}
