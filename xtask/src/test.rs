//! `./x test`: runs a lane of tests, in parts, and prints the minutes of each at the end.
//!
//! A part that fails does not stop the others. The last line sums the test programs' own results; a
//! part that failed without a failing test counts as one failure, so the line always agrees with
//! the exit status.

mod base;
mod dist;
mod lane;
mod limit;
mod parts;
mod reads;
mod tally;
mod touched;

use std::time::Instant;

use crate::house::House;
use lane::Lane;
use parts::Part;
use tally::Tally;

#[derive(clap::Args)]
pub(crate) struct Args {
    /// While you work: build, house rules and unit tests of the product and of what the change
    /// touches
    #[arg(long, conflicts_with_all = ["parts", "all"])]
    fast: bool,
    /// All crates and all kinds of tests
    #[arg(long, conflicts_with = "parts")]
    all: bool,
    /// Print the crates that the run would test, and why, and what it would leave out
    #[arg(long)]
    list: bool,
    /// Print the software that the run needs instead, by its names in `x`
    #[arg(long, hide = true)]
    needs: bool,
    /// Only these parts, with all crates
    #[arg(value_enum)]
    parts: Vec<Part>,
}

/// The result of one part.
struct Outcome {
    part: Part,
    minutes: f64,
    tally: Tally,
    /// Why it failed, apart from failed tests.
    error: Option<String>,
}

impl Outcome {
    fn good(&self) -> bool {
        self.tally.failed == 0 && self.error.is_none()
    }
}

/// Runs the parts; true if all of them succeeded.
pub(crate) fn run(house: &mut House, args: &Args) -> anyhow::Result<bool> {
    let lane = match args {
        Args { all: true, .. } => Lane::all(),
        Args { fast: true, .. } => Lane::of_a_change(house, Part::FAST),
        Args { parts, .. } if parts.is_empty() => Lane::of_a_change(house, Part::DAILY),
        Args { parts, .. } => Lane::of(parts),
    };
    if args.needs {
        // The fast lane installs nothing.
        let parts = lane.parts.iter().filter(|_| !args.fast);
        parts.flat_map(|part| part.software()).for_each(|name| println!("{name}"));
        return Ok(true);
    }
    house.scope = lane.scope.clone();
    print!("{}", lane.text);
    if args.list {
        let parts: Vec<String> = lane.parts.iter().map(Part::to_string).collect();
        println!("  parts: {}\n{}", parts.join(" "), lane.left_out);
        return Ok(true);
    }
    let before = args.all.then(|| base::clean(house));
    let mut outcomes: Vec<Outcome> = Vec::new();
    for part in &lane.parts {
        println!("\n== {part}: {}", part.what());
        let unbuilt = outcomes.iter().any(|done| done.part == Part::Build && !done.good());
        let possible = !unbuilt || !part.needs_build();
        outcomes.push(if possible { outcome(house, *part) } else { not_run(*part) });
    }
    let good = outcomes.iter().all(Outcome::good);
    if let Some(before) = before.filter(|_| good) {
        println!("\n{}", said(keep(house, before)));
    }
    print!("{}{}", lane.left_out, summary(&outcomes));
    Ok(good)
}

/// Makes the commit of a run in which everything succeeded the base of further changes.
fn keep(house: &House, before: anyhow::Result<String>) -> anyhow::Result<()> {
    let (before, now) = (before?, base::clean(house)?);
    anyhow::ensure!(before == now, "the checkout moved from {before} to {now} meanwhile");
    base::write(house, &now)
}

fn said(kept: anyhow::Result<()>) -> String {
    let file = base::FILE;
    match kept {
        Ok(()) => format!("wrote {file}: commit it, and ./x test tests the changes since"),
        Err(error) => format!("{file} stays as it is: {error:#}"),
    }
}

fn outcome(house: &House, part: Part) -> Outcome {
    let start = Instant::now();
    let mut tally = Tally::default();
    let error = part.run(house, &mut tally).err().map(|error| format!("{error:#}"));
    let minutes = start.elapsed().as_secs_f64() / 60.0;
    if let Some(error) = &error {
        println!("{part} failed: {error}");
    }
    Outcome { part, minutes, tally, error }
}

/// A part whose programs could not be built: it fails too, without printing the reason again.
fn not_run(part: Part) -> Outcome {
    let error = Some("not run: the workspace does not build".to_owned());
    Outcome { part, minutes: 0.0, tally: Tally::default(), error }
}

fn summary(outcomes: &[Outcome]) -> String {
    let mut text = String::from("\nminutes by part\n");
    let mut sum = Tally::default();
    for outcome in outcomes {
        let Outcome { part, minutes, tally, error } = outcome;
        let part = part.to_string();
        let verdict = if outcome.good() { "ok    " } else { "FAILED" };
        text += &format!("  {part:<7} {minutes:5.1}  {verdict}");
        if *tally != Tally::default() {
            text += &format!("  {tally}");
        }
        if let Some(error) = error {
            text += &format!("  {}", error.lines().next().unwrap_or_default());
        }
        text += "\n";
        sum += *tally;
        sum.failed += u64::from(error.is_some() && tally.failed == 0);
    }
    let minutes: f64 = outcomes.iter().map(|outcome| outcome.minutes).sum();
    text + &format!("  all     {minutes:5.1}\n\n{sum}\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ended(part: Part, passed: u64, failed: u64, error: Option<&str>) -> Outcome {
        let tally = Tally { passed, failed };
        Outcome { part, minutes: 1.25, tally, error: error.map(str::to_owned) }
    }

    // The last line sums the parts; one that failed without a failing test still counts.
    #[test]
    fn the_last_line_says_no_less_than_the_exit_status() {
        let text = summary(&[
            ended(Part::Check, 0, 0, Some("broken rules, see above")),
            ended(Part::Unit, 41, 2, Some("cargo test failed")),
            ended(Part::Real, 3, 0, None),
        ]);
        assert_eq!(text.lines().last(), Some("44 passed, 3 failed"));
        assert!(text.contains("  check     1.2  FAILED  broken rules, see above\n"), "{text}");
        assert!(text.contains("  real      1.2  ok      3 passed, 0 failed\n"), "{text}");
    }

    // Only a green run of a clean checkout that did not move becomes the base.
    #[test]
    fn a_run_that_is_not_kept_says_why() {
        let house = House::open().unwrap();
        let text = said(keep(&house, Err(anyhow::anyhow!("two files differ"))));
        assert_eq!(text, ".ci/all-green stays as it is: two files differ");
        assert!(said(Ok(())).contains("commit it"));
    }
}
