//! What somebody may have meant who wrote a word that is not known.

/// The candidate that `word` is most likely a slip of: few letters are wrong,
/// too many, missing or swapped, for its length.
pub(crate) fn nearest<'c>(
    word: &str,
    candidates: impl IntoIterator<Item = &'c str>,
) -> Option<&'c str> {
    let distance = |candidate| strsim::damerau_levenshtein(word, candidate);
    let (distance, best) = candidates
        .into_iter()
        .map(|candidate| (distance(candidate), candidate))
        .min_by_key(|&(distance, _)| distance)?;
    let most = best.chars().count().div_ceil(4).min(3);
    (distance <= most).then_some(best)
}

#[cfg(test)]
mod tests {
    use super::nearest;

    #[test]
    fn a_slip_is_near_and_another_word_is_not() {
        let words = ["tag", "cache", "read-only", "virtiofs", "no-readdirplus"];
        for (word, expected) in [
            ("tga", Some("tag")),
            ("cahce", Some("cache")),
            ("cashe", Some("cache")),
            ("readonly", Some("read-only")),
            ("read_only", Some("read-only")),
            ("virtio-fs", Some("virtiofs")),
            ("no-readdir", None),
            ("shared-dir", None),
            ("thread-pool-size", None),
            ("tax-haven", None),
            ("x", None),
        ] {
            assert_eq!(nearest(word, words), expected, "{word}");
        }
        assert_eq!(nearest("x", []), None);
    }
}
