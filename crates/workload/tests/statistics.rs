//! The published figures that the generators stand on, within stated tolerances.

use meridian_workload::{Chat, Generator, Mixed, Poisson, Program, ProgramKey, Sessions, Tree};

fn key(seed: u64, ordinal: u64) -> ProgramKey {
    ProgramKey { seed, region: 0, client: 0, ordinal }
}

fn quantile(sorted: &[u32], q: f64) -> u32 {
    sorted[((sorted.len() - 1) as f64 * q) as usize]
}

fn programs(generator: &dyn Generator, n: u64) -> Vec<Program> {
    (0..n).map(|i| generator.program(key(11, i))).collect()
}

// 40,000 chats have the published turns: mean 2.35 within 2 %, percentiles 90/95/99 exactly
// 5/7/13.
#[test]
fn chat_turns() {
    let mut turns: Vec<u32> =
        programs(&Chat::default(), 40_000).iter().map(|p| p.nodes.len() as u32).collect();
    turns.sort_unstable();
    let mean = f64::from(turns.iter().sum::<u32>()) / turns.len() as f64;
    assert!((mean / 2.35 - 1.0).abs() < 0.02, "mean {mean}");
    assert_eq!([0.90, 0.95, 0.99].map(|q| quantile(&turns, q)), [5, 7, 13]);
    assert!((Chat::default().mean_requests() - 2.35).abs() < 0.001);
}

// Lengths of the same chats: medians within 3 %, 90th percentiles within 4 % of the published ones.
#[test]
fn chat_lengths() {
    let chats = programs(&Chat::default(), 40_000);
    let nodes: Vec<_> = chats.iter().flat_map(|p| &p.nodes).collect();
    let mut prompts: Vec<u32> = nodes.iter().map(|n| n.adds[0].bytes / 4).collect();
    let mut replies: Vec<u32> = nodes.iter().map(|n| n.max_tokens).collect();
    prompts.sort_unstable();
    replies.sort_unstable();
    let near = |got: u32, want: f64, tolerance: f64| {
        assert!((f64::from(got) / want - 1.0).abs() < tolerance, "{got} is not near {want}");
    };
    near(quantile(&prompts, 0.5), 40.0, 0.03);
    near(quantile(&prompts, 0.9), 320.0, 0.04);
    near(quantile(&replies, 0.5), 511.0, 0.03);
    near(quantile(&replies, 0.9), 1058.0, 0.04);
}

// The cap on replies holds, and cuts nothing that lies below it.
#[test]
fn chat_replies_are_capped() {
    let capped = Chat { max_tokens: 200, ..Chat::default() };
    for i in 0..500 {
        let (a, b) = (capped.program(key(3, i)), Chat::default().program(key(3, i)));
        for (x, y) in a.nodes.iter().zip(&b.nodes) {
            assert_eq!(x.max_tokens, y.max_tokens.min(200));
        }
    }
}

// SkyWalker's trees have 15 and 85 requests.
#[test]
fn tree_sizes() {
    for (branch, size) in [(2, 15), (4, 85)] {
        let tree = Tree { branch, ..Tree::default() };
        assert_eq!(tree.program(key(1, 0)).nodes.len(), size);
        assert_eq!(tree.mean_requests(), size as f64);
    }
}

// Each part of a mix sends the same share of the requests, within 10 % over 20,000 programs.
#[test]
fn a_mix_shares_requests_evenly() {
    let tree4 = Tree { branch: 4, ..Tree::default() };
    let mixed = Mixed::new(vec![Box::new(Sessions::default()), Box::new(tree4)]);
    let sizes: Vec<usize> = programs(&mixed, 20_000).iter().map(|p| p.nodes.len()).collect();
    let sum = |size: usize| sizes.iter().filter(|&&s| s == size).sum::<usize>() as f64;
    assert!((sum(8) / sum(85) - 1.0).abs() < 0.1, "{} to {}", sum(8), sum(85));
    let mean = sizes.iter().sum::<usize>() as f64 / sizes.len() as f64;
    assert!((mean / mixed.mean_requests() - 1.0).abs() < 0.05);
}

// A Poisson process has its rate (within 2 % over 20,000 arrivals), gaps whose deviation equals
// their mean (within 3 %), and no end.
#[test]
fn poisson_arrivals() {
    let times: Vec<f64> = Poisson::new(5, 50.0).take(20_000).map(|d| d.as_secs_f64()).collect();
    let gaps: Vec<f64> = times.windows(2).map(|w| w[1] - w[0]).collect();
    let mean = gaps.iter().sum::<f64>() / gaps.len() as f64;
    let var = gaps.iter().map(|g| (g - mean).powi(2)).sum::<f64>() / gaps.len() as f64;
    assert!((mean * 50.0 - 1.0).abs() < 0.02, "mean gap {mean}");
    assert!((var.sqrt() / mean - 1.0).abs() < 0.03);
    assert_eq!(Poisson::new(5, 0.0).next(), None);
}
