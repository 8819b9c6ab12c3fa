//! Checks the region names in a request. A mistyped name would create a region without gateways, so
//! it is refused with the nearest known one, unless `force` says that the region is being prepared.

use std::collections::BTreeSet;

use http::StatusCode;

use super::answer::Refusal;
use crate::registry::View;

/// Most names that an error lists.
const LISTED: usize = 8;
/// Names with at least this similarity count as similar (Jaro-Winkler).
const SIMILAR: f64 = 0.7;

/// Refuses the first of `names` that is not a region of the fleet; `field` is their place in the
/// request.
pub(super) fn known<'a>(
    view: &View,
    field: &str,
    names: impl IntoIterator<Item = &'a String>,
) -> Result<(), Refusal> {
    let regions: BTreeSet<&str> = view.regions.keys().map(String::as_str).collect();
    let Some(name) = names.into_iter().find(|name| !regions.contains(name.as_str())) else {
        return Ok(());
    };
    let shown: String = name.chars().take(63).collect();
    let nearest = match nearest(name, &regions) {
        Some(nearest) => format!("did you mean `{nearest}`?"),
        None => format!("known: {}", list(&regions)),
    };
    let message = format!(
        "{field}: there is no region `{shown}`; {nearest} To prepare a region, make it with \
         `meridian regions set`, or send ?force=true (--force)"
    );
    Err(Refusal::new(StatusCode::NOT_FOUND, "unknown_region", message))
}

fn nearest<'a>(name: &str, regions: &BTreeSet<&'a str>) -> Option<&'a str> {
    let similarity = |one: &&&str| strsim::jaro_winkler(name, one);
    let most = regions.iter().max_by(|a, b| similarity(a).total_cmp(&similarity(b)));
    most.filter(|one| similarity(one) >= SIMILAR).copied()
}

fn list(regions: &BTreeSet<&str>) -> String {
    let some: Vec<&str> = regions.iter().copied().take(LISTED).collect();
    match regions.len() {
        0 => "none yet.".to_owned(),
        n if n > LISTED => format!("{} and {} more.", some.join(", "), n - LISTED),
        _ => format!("{}.", some.join(", ")),
    }
}
