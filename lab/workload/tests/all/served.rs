//! Tests of the production-like generators: their stated statistics, tiers and tenants.

use std::collections::BTreeMap;
use std::time::Duration;

use meridian_workload::{
    GENERATORS, Generator, Measured, ProgramKey, Sample, find_generator, measure, prompt_of,
};

fn published(name: &str) -> Box<dyn Generator> {
    find_generator(name).expect("the registry has it").published()
}

fn measured(name: &str, block_tokens: u32) -> Measured {
    measure(&*published(name), Sample { programs: 10_000, block_tokens, ..Sample::default() })
}

/// Asserts a mean prompt within 5 % of the stated one, and a reuse within 4 points.
fn check(got: Measured, prompt: f64, reuse: f64) {
    assert!((got.prompt_tokens / prompt - 1.0).abs() < 0.05, "{got:?}: want {prompt}");
    assert!((got.reuse - reuse).abs() < 0.04, "{got:?}: want {reuse}");
}

// The traces' statistics: mean prompts of 1,954, 1,000 and 8,619 tokens, of which an unbounded
// cache has 51.6, 65.1 and 58.1 % in the traces' own blocks of 16, 16 and 512 tokens.
#[test]
fn lengths_and_reuse_are_the_stated_ones() {
    check(measured("qwen_a", 16), 1954.0, 0.516);
    check(measured("qwen_b", 16), 1000.0, 0.651);
    check(measured("tool_agent", 512), 8619.0, 0.581);
}

// Replies have their means: 420, 90 and 182 tokens within 3 %.
#[test]
fn replies_have_their_means() {
    for (name, want) in [("qwen_a", 420.0), ("qwen_b", 90.0), ("tool_agent", 182.0), ("rag", 150.0)]
    {
        let got = measured(name, 16).reply_tokens;
        assert!((got / want - 1.0).abs() < 0.03, "{name}: {got}");
    }
}

// A document prompt contains the system prompt, five different documents and the question; the mean
// prompt follows from the popular documents' lengths, and reuse ends early in most prompts.
#[test]
fn document_prompts() {
    let rag = published("rag");
    for ordinal in 0..300 {
        let program = rag.program(ProgramKey { seed: 3, region: 0, client: 0, ordinal });
        let prompt = prompt_of(&program, 0);
        assert_eq!((prompt.len(), prompt[0].bytes), (7, 2000));
        let documents: std::collections::BTreeSet<u64> =
            prompt[1..6].iter().map(|s| s.id).collect();
        assert_eq!(documents.len(), 5, "a document stands twice in {ordinal}");
    }
    let got = measured("rag", 16);
    assert!((0.25..0.35).contains(&got.reuse), "{got:?}");
}

// A step of a tool loop has parallel branches, each after the first request of the previous step.
#[test]
fn tool_loops_branch() {
    let program =
        published("tool_loop").program(ProgramKey { seed: 3, region: 0, client: 0, ordinal: 0 });
    let shape: Vec<_> = program.nodes.iter().map(|n| (n.parent, n.level)).collect();
    assert_eq!(shape[0], (None, 0));
    assert_eq!(shape[1..4], [(Some(0), 1), (Some(0), 1), (Some(0), 1)]);
    assert_eq!(shape[4..7], [(Some(1), 2), (Some(1), 2), (Some(1), 2)]);
    assert_eq!(shape[10..], [(Some(7), 4), (Some(7), 4), (Some(7), 4)]);
}

// Any generator accepts tiers and tenants: 80 % of the programs have three times the TTFT at low
// load as objective, the others ten times, tenants follow Zipf's law, and nothing else changes.
#[test]
fn tiers_lie_over_everything() {
    let given = [("ttft_ms".into(), 200.0), ("tenants".into(), 3.0)];
    for spec in GENERATORS {
        let (plain, tiered) = (spec.published(), spec.build(&given).expect("all take these"));
        let mut seen = BTreeMap::<(u64, Option<Duration>), f64>::new();
        for ordinal in 0..1000 {
            let key = ProgramKey { seed: 6, region: 0, client: 1, ordinal };
            let (plain, mut program) = (plain.program(key), tiered.program(key));
            *seen.entry((program.tenant, program.slo)).or_default() += 1e-3;
            assert_eq!((plain.tenant, plain.slo), (0, None));
            (program.tenant, program.slo) = (0, None);
            assert_eq!(program, plain, "{}: tiers changed more", spec.name);
        }
        let share = |of: &dyn Fn(u64, Duration) -> bool| -> f64 {
            seen.iter().filter(|((t, slo), _)| of(*t, slo.unwrap_or_default())).map(|x| x.1).sum()
        };
        let tight = share(&|_, slo| slo == Duration::from_millis(600));
        let loose = share(&|_, slo| slo == Duration::from_millis(2000));
        assert!((tight - 0.8).abs() < 0.04 && (tight + loose - 1.0).abs() < 1e-9, "{tight}");
        let tenants = [1, 2, 3].map(|t| share(&|tenant, _| tenant == t));
        for (got, want) in tenants.iter().zip([6.0 / 11.0, 3.0 / 11.0, 2.0 / 11.0]) {
            assert!((got - want).abs() < 0.05, "{}: {tenants:?}", spec.name);
        }
    }
}
