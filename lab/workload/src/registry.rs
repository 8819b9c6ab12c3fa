//! The registry of generators with their parameters, for experiments and the command line.
//!
//! A generator is one file in `generators/` and one line in [`GENERATORS`]. The line has its
//! summary, the source of its figures, and its knobs with their defaults and ranges. All of them
//! also accept the knobs of [`tiers`](crate::Tiers): tenants and objectives can be added to any
//! workload.

use crate::generators::{
    agents, chat, first_prompts, lengths, rag, region_chat, served, sessions, tool_loop, trees,
};
use crate::spec::GeneratorSpec;

/// Every generator, in the order in which they are listed.
pub static GENERATORS: &[&GeneratorSpec] = &[
    &region_chat::ARENA,
    &region_chat::WILDCHAT,
    &trees::TREE2,
    &trees::TREE4,
    &served::QWEN_A,
    &served::QWEN_B,
    &served::TOOL_AGENT,
    &rag::SPEC,
    &sessions::SESSIONS,
    &sessions::SINGLE,
    &tool_loop::SPEC,
    &agents::SPEC,
    &chat::SPEC,
    &first_prompts::SPEC,
    &lengths::SPEC,
    &served::LONG_REPLIES,
    &served::UNLIKE_REPLIES,
    &served::LONG_REUSE,
    &served::FLIPS,
    &trees::WIDE_TREE,
];

/// The generator called `name`.
#[must_use]
pub fn find_generator(name: &str) -> Option<&'static GeneratorSpec> {
    GENERATORS.iter().find(|spec| spec.name == name).copied()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ProgramKey;

    // Names are unique, defaults are within their ranges, and each default generator produces
    // programs: parents before children, levels in order, nothing empty.
    #[test]
    fn every_generator_is_sound() {
        for (i, spec) in GENERATORS.iter().enumerate() {
            assert!(GENERATORS[..i].iter().all(|s| s.name != spec.name), "{} twice", spec.name);
            let own: Vec<(String, f64)> =
                spec.knobs().map(|p| (p.name.into(), p.default)).collect();
            let generator = spec.build(&own).expect("defaults lie within their ranges");
            let published = spec.published();
            for ordinal in 0..200 {
                let key = ProgramKey { seed: 5, region: 1, client: 2, ordinal };
                let program = generator.program(key);
                assert_eq!(program, published.program(key), "{} differs", spec.name);
                assert!(!program.nodes.is_empty());
                for (n, node) in program.nodes.iter().enumerate() {
                    assert!(node.parent.is_none_or(|p| p < n));
                    assert!(n == 0 || program.nodes[n - 1].level <= node.level);
                    assert!(node.max_tokens > 0 && node.adds.iter().all(|s| s.bytes > 0));
                }
            }
        }
    }

    // The mean number of requests that each generator states is correct, within 5 % over 4,000
    // programs.
    #[test]
    fn mean_requests_are_true() {
        for spec in GENERATORS {
            let generator = spec.published();
            let key = |i: u64| ProgramKey { seed: 8, region: 0, client: i as u32, ordinal: i / 7 };
            let made: usize = (0..4000).map(|i| generator.program(key(i)).nodes.len()).sum();
            let ratio = made as f64 / 4000.0 / generator.mean_requests();
            assert!((ratio - 1.0).abs() < 0.05, "{}: {ratio}", spec.name);
        }
    }

    // All errors are reported at once, and each names the generator, the knob, the value and the
    // remedy.
    #[test]
    fn errors_say_what_to_do() {
        let given = [("branch".into(), 99.0), ("brunch".into(), 2.0), ("depth".into(), f64::NAN)];
        let errors = trees::TREE2.build(&given).err().expect("three errors");
        let texts: Vec<String> = errors.iter().map(ToString::to_string).collect();
        assert_eq!(texts[0], "tree2: branch is 99: use 1 to 8");
        assert!(
            texts[1].starts_with("tree2 has no parameter \"brunch\": use one of branch, depth")
        );
        assert_eq!(texts[2], "tree2: depth is NaN: use 1 to 6");
    }
}
