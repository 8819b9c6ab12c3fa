use meridian_bench::experiment::{self, Options, runner};
use std::path::PathBuf;
fn main() -> anyhow::Result<()> {
    let mut args = std::env::args().skip(1);
    let name = args.next().unwrap();
    let file = args.next().map(PathBuf::from);
    let out = args.next().map(PathBuf::from);
    let seeds = args.next().map(|s| s.parse().unwrap());
    let entry = experiment::find(&name).expect("known");
    let options = Options { file, out: out.clone(), seeds, ..Options::default() };
    let t = std::time::Instant::now();
    let outcome = experiment::run(entry, options, &runner::simulate, &|d, n, _| {
        if d % 20 == 0 {
            eprintln!("{d}/{n} {:?}", t.elapsed())
        }
    })?;
    for table in &outcome.findings.tables {
        println!("{}", table.text());
    }
    if let Some(out) = out {
        outcome.write(&out)?;
    }
    for v in outcome.findings.violations.iter().take(5) {
        println!("VIOLATION {v}");
    }
    Ok(())
}
