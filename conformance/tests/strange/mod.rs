//! Texts that somebody might have written who was not careful.

use anabranch_base::Rng;

/// `text` with up to five characters from `pool` put in, put in place of another, or taken out.
pub fn strange(text: &str, pool: &str, rng: &mut Rng) -> String {
    let (mut chars, pool): (Vec<char>, Vec<char>) = (text.chars().collect(), pool.chars().collect());
    for _ in 0..=rng.below(4) {
        let at = rng.below(chars.len() as u64) as usize;
        let put = pool[rng.below(pool.len() as u64) as usize];
        match rng.below(3) {
            0 => chars[at] = put,
            1 => chars.insert(at, put),
            _ => drop(chars.remove(at)),
        }
    }
    chars.into_iter().collect()
}
