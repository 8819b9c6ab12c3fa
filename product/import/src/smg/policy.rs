//! `--policy` with its thresholds.

use meridian_config::policies;

use super::super::draft::Draft;
use super::super::note::Found;
use super::super::value;
use super::given::Given;

/// The policy with the rule of cache_aware. `meridian` has it with its feature `rivals`, a default.
const CACHE_AWARE: &str = "sglang_cache_aware";

/// Converts the policy. If only thresholds are given, it is cache_aware, the default.
pub(super) fn policy(given: &Given, draft: &mut Draft) {
    let thresholds = [
        ("policy.cache_threshold", "--cache-threshold", "--cache-match-threshold"),
        ("policy.balance_abs_threshold", "--balance-abs-threshold", "--spill-abs-threshold"),
        ("policy.balance_rel_threshold", "--balance-rel-threshold", "--spill-rel-threshold"),
        ("policy.max_tree_size", "--max-tree-size", "--max-tree-size"),
    ];
    let tuned = thresholds.iter().any(|(_, flag, other)| given.has(flag) || given.has(other));
    let found = given.found("--policy");
    match given.last("--policy") {
        None if !tuned => {
            let found = Found::new("--policy", "is not given", "");
            draft.set("policy", "meridian", &found);
        }
        None | Some("cache_aware") => {
            let found = if tuned && !given.has("--policy") {
                Found::new("--policy", "cache_aware by default", "")
            } else {
                found
            };
            if policies::find(CACHE_AWARE).is_none() {
                let why = "this program has no policies of other routers, so it is `meridian`";
                let remedy = format!("set policy: {CACHE_AWARE} with a program that has it");
                draft.note(&found, why, remedy);
                draft.set("policy", "meridian", &found);
                return;
            }
            draft.set("policy.name", CACHE_AWARE, &found);
            for (path, flag, other) in thresholds {
                let flag = if given.has(flag) { flag } else { other };
                let number = given.last(flag).and_then(|n| n.parse::<f64>().ok());
                if let Some(number) = number.filter(|n| n.is_finite()) {
                    draft.set(path, number, &given.found(flag));
                }
            }
        }
        Some(name @ ("random" | "round_robin")) => draft.set("policy", name, &found),
        Some("power_of_two") => draft.set("policy", "p2c", &found),
        Some("consistent_hashing") => draft.set("policy", "consistent_hash", &found),
        Some("consistent_hash") => {
            draft.set("policy", "consistent_hash", &found);
            // vllm-router's headers, in its order, without those that differ between requests.
            let headers = ["x-session-id", "x-user-id", "x-tenant-id"];
            draft.set("keys.headers", value::list(headers), &found);
        }
        Some("prefix_hash") => {
            draft.set("policy.name", "chwbl", &found);
            let factor =
                given.last("--prefix-hash-load-factor").and_then(|n| n.parse::<f64>().ok());
            if let Some(factor) = factor.filter(|factor| factor.is_finite()) {
                draft.set("policy.load_factor", factor, &given.found("--prefix-hash-load-factor"));
            }
        }
        Some("manual") => {
            draft.set("policy", "consistent_hash", &found);
            if !given.has("--routing-key-headers") {
                draft.set(
                    "keys.headers",
                    value::list(["x-smg-routing-key", "x-session-id"]),
                    &found,
                );
            }
        }
        Some(_) => {
            draft.set("policy", "meridian", &found);
            draft.note(&found, "no policy is the same", "compare the policies in docs/routing.md");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::draft::Draft;
    use super::super::super::source::Source;

    // Without the policies of other routers, cache_aware becomes the default, with a note.
    #[test]
    fn cache_aware_without_its_policy() {
        let text = "smg launch --worker-urls http://a:1 --policy cache_aware --cache-threshold 0.4";
        let source = Source { name: "f".to_owned(), folder: None, text: text.to_owned() };
        let mut draft = Draft::default();
        super::super::read(&source, &mut draft).unwrap();
        let (yaml, notes) = draft.finish("smg", "f").unwrap();
        assert!(yaml.contains("policy: meridian "), "{yaml}");
        assert!(notes[0].contains("set policy: sglang_cache_aware"), "{notes:?}");
    }
}
