//! Creates texts with random typing errors.

use anabranch_base::Rng;

/// Returns `text` with one to five changes: a character from `pool` inserted or substituted, or one removed.
pub fn mutate(text: &str, pool: &str, rng: &mut Rng) -> String {
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
