//! Suggestions for misspelt names.

/// The known name that a misspelt one resembles most.
#[must_use]
pub fn closest<'a>(name: &str, known: &[&'a str]) -> Option<&'a str> {
    /// Below this the names have little in common.
    const SIMILAR: f64 = 0.8;
    let plain = |name: &str| name.to_ascii_lowercase().replace('-', "_");
    let name = plain(name);
    let scored = known.iter().map(|one| (strsim::jaro_winkler(&name, &plain(one)), *one));
    let best = scored.max_by(|(a, _), (b, _)| a.total_cmp(b))?;
    (best.0 >= SIMILAR).then_some(best.1)
}

/// A remedy that suggests the closest name, if any, and lists the known ones.
#[must_use]
pub fn suggest(name: &str, known: &[&str]) -> String {
    let list = known.join(", ");
    match closest(name, known) {
        Some(one) if known.len() > 1 => format!("did you mean `{one}`? Use one of {list}"),
        _ => format!("use one of {list}"),
    }
}
