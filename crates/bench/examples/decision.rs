//! `cargo run --release -p meridian-bench --example decision`: what a decision costs.

fn main() -> anyhow::Result<()> {
    meridian_bench::decision::run(&meridian_bench::decision::Options::default())
}
