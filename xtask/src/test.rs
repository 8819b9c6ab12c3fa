//! `./x test`: runs everything CI runs, in parts, and prints the minutes of each at the end.
//!
//! A part that fails does not stop the others. The last line sums the test programs' own results; a
//! part that failed without a failing test counts as one failure, so the line always agrees with
//! the exit status.

mod dist;
mod limit;
mod parts;
mod tally;

use std::time::Instant;

use crate::house::House;
use parts::Part;
use tally::Tally;

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Leave out parts that need other software or run a whole region: real, up and dist
    #[arg(long, conflicts_with = "parts")]
    fast: bool,
    /// Only these parts; all of them by default
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
pub(crate) fn run(house: &House, args: &Args) -> anyhow::Result<bool> {
    let mut outcomes: Vec<Outcome> = Vec::new();
    for part in chosen(args) {
        println!("\n== {part}: {}", part.what());
        let unbuilt = outcomes.iter().any(|done| done.part == Part::Build && !done.good());
        let possible = !unbuilt || !part.needs_build();
        outcomes.push(if possible { outcome(house, part) } else { not_run(part) });
    }
    if args.fast {
        println!(
            "\n--fast left out: real (tests/real of cli and dns), up and dist; ./x test runs them"
        );
    }
    print!("{}", summary(&outcomes));
    Ok(outcomes.iter().all(Outcome::good))
}

fn chosen(args: &Args) -> Vec<Part> {
    let all = if args.fast { Part::FAST } else { Part::ALL };
    let asked = if args.parts.is_empty() { all } else { &args.parts };
    // The build has its own line in the table of times.
    let builds = asked.iter().any(|part| part.needs_build());
    let mut parts: Vec<Part> = builds.then_some(Part::Build).into_iter().collect();
    parts.extend(asked.iter().filter(|part| **part != Part::Build));
    parts
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
        text += &format!("  {part:<6} {minutes:5.1}  {verdict}");
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
    text + &format!("  all    {minutes:5.1}\n\n{sum}\n")
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
        assert!(text.contains("  check    1.2  FAILED  broken rules, see above\n"), "{text}");
        assert!(text.contains("  real     1.2  ok      3 passed, 0 failed\n"), "{text}");
    }

    // Running one part builds first; running only the check does not.
    #[test]
    fn parts_bring_the_build_along() {
        let of = |parts: &[Part]| chosen(&Args { fast: false, parts: parts.to_vec() });
        assert_eq!(of(&[Part::Up]), [Part::Build, Part::Up]);
        assert_eq!(of(&[Part::Check]), [Part::Check]);
        assert_eq!(of(&[Part::Dist]), [Part::Dist]);
        assert_eq!(of(&[]).len(), Part::ALL.len());
    }
}
