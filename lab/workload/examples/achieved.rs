//! Prints the achieved figures of every generator, as lab/results/generators.md shows them:
//!
//! ```text
//! cargo run --release -p meridian-workload --example achieved
//! ```

use meridian_workload::{GENERATORS, Sample, asked, measure, similarity};

/// Seeds that similarities are averaged over.
const SEEDS: u64 = 40;

fn main() {
    print!("| generator | requests | prompt tokens | reply tokens | reuse | prompts alone ");
    println!("| 512 | 8 caches | 12 caches |");
    println!("|{}", " --- |".repeat(9));
    for spec in GENERATORS {
        let generator = spec.published();
        let programs = (40_000.0 / generator.mean_requests()) as u64;
        let of = |block_tokens, caches, replies| {
            let sample = Sample { programs, block_tokens, caches, replies, ..Sample::default() };
            measure(&*generator, sample)
        };
        let one = of(16, 1, true);
        let percent = |measured: meridian_workload::Measured| 100.0 * measured.reuse;
        println!(
            "| `{}` | {:.2} | {:.0} | {:.0} | {:.1} % | {:.1} % | {:.1} % | {:.1} % | {:.1} % |",
            spec.name,
            one.requests as f64 / programs as f64,
            one.prompt_tokens,
            one.reply_tokens,
            percent(one),
            percent(of(16, 1, false)),
            percent(of(512, 1, true)),
            percent(of(16, 8, true)),
            percent(of(16, 12, true)),
        );
    }
    println!();
    println!("| generator | across regions | users of a region | within a user | ratio |");
    println!("| --- | --- | --- | --- | --- |");
    for spec in GENERATORS.iter().filter(|spec| spec.params.iter().any(|p| p.name == "habits")) {
        let generator = spec.published();
        let mut sums = [0.0; 4];
        for seed in 0..SEEDS {
            let s = similarity(&asked(&*generator, seed, 3, 1000));
            let row = [s.across_regions, s.across_users_in_region, s.across_users, s.within_user];
            sums.iter_mut().zip(row).for_each(|(sum, x)| *sum += x / SEEDS as f64);
        }
        let [regions, users, all, within] = sums;
        let ratio = within / all;
        println!("| `{}` | {regions:.4} | {users:.4} | {within:.3} | {ratio:.2} |", spec.name);
    }
}
