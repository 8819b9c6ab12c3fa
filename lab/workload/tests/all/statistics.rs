//! Tests of the published figures behind the generators, within stated tolerances.

use meridian_workload::{
    Chat, Generator, Mixed, Poisson, Program, ProgramKey, Sample, Sessions, Similarity, Tree,
    asked, find_generator, measure, similarity,
};

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

// The cap on replies holds, and does not affect shorter ones.
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

// Questions are as long as GSM8K's: mean 235, median 217, 90th and 99th percentile 361 and 527
// characters, within 5 %: the lognormal's tail is a little longer.
#[test]
fn tree_questions() {
    let mut questions: Vec<u32> =
        programs(&Tree::default(), 20_000).iter().map(|p| p.nodes[0].adds[0].bytes).collect();
    questions.sort_unstable();
    let mean = f64::from(questions.iter().sum::<u32>()) / questions.len() as f64;
    near("mean", mean, 235.0, 0.02);
    for (q, want) in [(0.5, 217.0), (0.9, 361.0), (0.99, 527.0)] {
        near("question", f64::from(quantile(&questions, q)), want, 0.05);
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

/// The similarities of `name`, over three seeds of 1,000 conversations a region.
fn similarities(name: &str) -> Similarity {
    let generator = find_generator(name).expect("the registry has it").published();
    let of = |seed| similarity(&asked(&*generator, seed, 3, 1000));
    let runs = [of(1), of(2), of(3)];
    let mean = |of: fn(&Similarity) -> f64| runs.iter().map(of).sum::<f64>() / 3.0;
    Similarity {
        within_user: mean(|s| s.within_user),
        across_users: mean(|s| s.across_users),
        across_users_in_region: mean(|s| s.across_users_in_region),
        across_regions: mean(|s| s.across_regions),
    }
}

fn near(what: &str, got: f64, want: f64, tolerance: f64) {
    assert!((got / want - 1.0).abs() < tolerance, "{what}: {got} is not near {want}");
}

// SkyWalker's Figure 5(a): requests of one user are 7.60 times as similar as those of different
// users in WildChat, with 2.5 % across regions, and 2.47 times in Arena. Within 8 %: a few busy
// users carry the means.
#[test]
fn similarities_are_the_published_ones() {
    let wildchat = similarities("wildchat");
    near("WildChat", wildchat.ratio(), 7.60, 0.08);
    near("across regions", wildchat.across_regions, 0.025, 0.08);
    near("in a region", wildchat.across_users_in_region, 0.03, 0.08);
    let arena = similarities("arena");
    near("Arena", arena.ratio(), 2.47, 0.08);
    near("across users", arena.across_users, 0.08, 0.08);
}

// Chats in regions have the published turns, whatever templates and users do to them: a
// conversation that outgrows its context is rare enough.
#[test]
fn region_chat_turns() {
    let generator = find_generator("wildchat").expect("the registry has it").published();
    let mut turns: Vec<u32> =
        programs(&*generator, 20_000).iter().map(|p| p.nodes.len() as u32).collect();
    turns.sort_unstable();
    let mean = f64::from(turns.iter().sum::<u32>()) / turns.len() as f64;
    near("turns", mean, 2.35, 0.02);
    assert_eq!([0.90, 0.95, 0.99].map(|q| quantile(&turns, q)), [5, 7, 13]);
}

/// The share of `name`'s prompts found in an unbounded cache, and in 12 of them with random
/// placement.
fn reuse(name: &str, programs: u64) -> (f64, f64) {
    let generator = find_generator(name).expect("the registry has it").published();
    let reuse = |caches| {
        let sample = Sample { programs, block_tokens: 1, caches, ..Sample::default() };
        measure(&*generator, sample).reuse
    };
    (reuse(1), reuse(12))
}

// The basis of the routing experiments: the reuse that exists, and the share that a policy without
// information finds. SkyWalker's Figure 8 has 37-47 % for its best and 11-17 % for round robin on
// chat, 90 and 59 % on trees; these are the limits for bounded caches.
#[test]
fn reuse_leaves_room_for_the_published_hit_ratios() {
    for name in ["arena", "wildchat"] {
        let (all, random) = reuse(name, 4000);
        assert!((0.50..0.58).contains(&all), "{name}: {all}");
        assert!((0.09..0.13).contains(&random), "{name}: {random}");
    }
    let (all, random) = reuse("tree2", 600);
    near("tree2, one cache", all, 0.957, 0.01);
    near("tree2, 12 caches", random, 0.59, 0.02);
}

// `continuation` is the share of later turns that extend the earlier text: reuse grows with it, and
// at 0 only openings are reused.
#[test]
fn continuation_is_a_knob() {
    let reuse = |share: f64| {
        let wildchat = find_generator("wildchat").expect("the registry has it");
        let generator = wildchat.build(&[("continuation".into(), share)]).expect("within range");
        measure(&*generator, Sample { programs: 2000, ..Sample::default() }).reuse
    };
    let [none, half, full] = [0.0, 0.5, 1.0].map(reuse);
    assert!(none < 0.08 && (0.4..0.6).contains(&half) && full > 0.85, "{none} {half} {full}");
}

// The shares of openings can be solved for any targets: several templates of a kind and several
// habits of a user give the same similarities as one, and lower targets give lower similarities.
#[test]
fn openings_are_solved_for_what_is_asked() {
    let of = |given: &[(&str, f64)]| {
        let given: Vec<_> = given.iter().map(|(k, v)| ((*k).to_owned(), *v)).collect();
        let arena = find_generator("arena").expect("the registry has it");
        similarity(&asked(&*arena.build(&given).expect("within range"), 1, 3, 1000))
    };
    let few = of(&[("across_regions", 0.01), ("across_users", 0.04), ("within_ratio", 6.0)]);
    near("regions", few.across_regions, 0.01, 0.2);
    near("users", few.across_users_in_region, 0.04, 0.15);
    near("ratio", few.ratio(), 6.0, 0.15);
    let many = [("across_regions", 0.01), ("across_users", 0.02), ("templates", 3.0)];
    let many = of(&[many[0], many[1], many[2], ("within_ratio", 7.6), ("habits", 2.0)]);
    near("several templates", many.across_regions, 0.01, 0.25);
    near("several habits", many.ratio(), 7.6, 0.15);
}
