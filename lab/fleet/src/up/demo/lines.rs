//! The lines of the demo. None is longer than [`WIDTH`] columns.

use std::time::Duration;

use super::NAMES;
use super::tallied::Tallied;

/// Columns of the narrowest usual terminal.
pub(super) const WIDTH: usize = 80;

/// Both fleets, before the first block. The pages are addresses.
pub(super) fn head(seed: u64, (replicas, speed): (u32, f64), pages: &[String; 2]) -> String {
    let both = wrapped(&format!(
        "Two fleets of us, eu and asia with the distances between them, {replicas} model engines in \
         each region (Llama-3.1-8B on L4, at {speed} times its speed), and the same clients: \
         coding agents (seed {seed}). Both run Meridian's gateways, so they differ in routing only:"
    ));
    let [ours, other] = NAMES;
    format!(
        "{both}\n  {ours:<22}  policy meridian, forwards between regions\n  {other:<22}  policy \
         round_robin, each region alone\nTheir pages: http://{} and http://{}\n",
        pages[0], pages[1]
    )
}

/// The header of the blocks.
pub(super) fn block_head() -> String {
    format!(
        "{:<28}{:>8}{:>8}{:>8}{:>11}{:>8}{:>8}",
        "last 10 s", "TTFT p50", "p90", "p99", "answers/s", "cached", "running"
    )
}

/// A fleet in a block; the first of a block has the time.
pub(super) fn of_window(
    at: Option<Duration>,
    name: &str,
    window: &Tallied,
    length: Duration,
    running: u64,
) -> String {
    let at = at.map_or(String::new(), |at| format!("{:.0} s", at.as_secs_f64()));
    let rate = window.rate(length);
    format!(
        "{at:>5} {name:<22}{:>8}{:>8}{:>8}{rate:>11.1}{:>8}{running:>8}",
        time(window.p50),
        time(window.p90),
        time(window.p99),
        percent(window.cached),
    )
}

/// The title of the summary, of a run that may have been stopped early.
pub(super) fn title(length: Duration, replicas: u32, killed: Option<(String, Duration)>) -> String {
    let seconds = |time: Duration| format!("{:.0} s", time.as_secs_f64());
    let killed = killed.map_or("no replica killed".to_owned(), |(replica, at)| {
        format!("{replica} killed at {}", seconds(at))
    });
    wrapped(&format!(
        "meridian demo, {}, 3 regions of {replicas} model engines, coding agents, {killed}",
        seconds(length)
    ))
}

/// The header of the summary.
pub(super) fn summary_head() -> String {
    format!(
        "{:<22}{:>8}{:>5}{:>6}{:>9}{:>8}{:>8}{:>7}{:>7}",
        "", "answers", "lost", "moved", "TTFT p50", "p90", "p99", "whole", "cached"
    )
}

/// A fleet in the summary.
pub(super) fn of_run(name: &str, run: &Tallied, moved: u64) -> String {
    format!(
        "{name:<22}{:>8}{:>5}{moved:>6}{:>9}{:>8}{:>8}{:>7}{:>7}",
        run.answers,
        run.lost,
        time(run.p50),
        time(run.p90),
        time(run.p99),
        time(run.whole),
        percent(run.cached),
    )
}

/// How one fleet came through the kill.
pub(super) fn after_kill(name: &str, lost: u64, requests: u64, moved: u64) -> String {
    format!("      {name}: {lost} of {requests} requests lost, {moved} moved elsewhere")
}

/// Where the other fleet was ahead, a line for each figure; `places` has `all` first, then the regions,
/// each with our measurements and the other's.
pub(super) fn behind(places: &[(String, Tallied, Tallied)]) -> Vec<String> {
    type OfTally = fn(&Tallied) -> Option<f64>;
    let figures: [(&str, OfTally); 4] = [
        ("TTFT p50", |t| t.p50),
        ("TTFT p90", |t| t.p90),
        ("TTFT p99", |t| t.p99),
        ("whole answer p50", |t| t.whole),
    ];
    let one = |(place, ours, other): &(String, Tallied, Tallied)| {
        let lines = figures.iter().filter_map(|(what, of)| {
            let (a, b) = (of(ours)?, of(other)?);
            let times = || format!("{} against {}", time(Some(b)), time(Some(a)));
            (b < a).then(|| format!("  {what} in {place}: {}", times()))
        });
        lines.collect::<Vec<_>>()
    };
    places.iter().flat_map(one).collect()
}

/// At most seven columns: `354 ms`, `2.87 s`, `12.4 s`, `103 s`.
fn time(ms: Option<f64>) -> String {
    match ms {
        None => "-".to_owned(),
        Some(ms) if ms < 999.5 => format!("{ms:.0} ms"),
        Some(ms) if ms < 9_995.0 => format!("{:.2} s", ms / 1e3),
        Some(ms) if ms < 99_950.0 => format!("{:.1} s", ms / 1e3),
        Some(ms) => format!("{:.0} s", ms / 1e3),
    }
}

fn percent(share: Option<f64>) -> String {
    share.map_or_else(|| "-".to_owned(), |share| format!("{:.0} %", share * 100.0))
}

/// Splits a text at spaces into lines of at most [`WIDTH`] columns.
pub fn wrapped(text: &str) -> String {
    let mut lines = vec![String::new()];
    for word in text.split_whitespace() {
        let line = lines.last_mut().expect("there is a line");
        if line.is_empty() {
            line.push_str(word);
        } else if line.chars().count() + 1 + word.chars().count() <= WIDTH {
            line.push(' ');
            line.push_str(word);
        } else {
            lines.push(word.to_owned());
        }
    }
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::super::WINDOW;
    use super::*;

    fn slow() -> Tallied {
        let ms = Some(119_999.0);
        let (answers, lost, cached) = (999_999, 999, Some(1.0));
        Tallied { answers, lost, p50: ms, p90: ms, p99: ms, whole: ms, cached }
    }

    // Every line fits, with the longest names, times and counts that a run can have, and columns
    // stay apart.
    #[test]
    fn lines_fit_a_terminal_of_80_columns() {
        let (at, most) = (Some(Duration::from_secs(9999)), slow());
        let nine = Tallied { p50: Some(9_990.0), ..slow() };
        let mut lines = vec![block_head(), summary_head()];
        for name in NAMES {
            lines.push(of_window(at, name, &most, WINDOW, 999_999));
            lines.push(of_window(None, name, &nine, WINDOW, 1));
            lines.push(of_run(name, &most, 99_999));
            lines.push(after_kill(name, 9999, 999_999, 9_999));
        }
        let faster = Tallied { p50: Some(1.0), p90: Some(1.0), p99: Some(1.0), ..slow() };
        let pages = ["127.0.0.1:65535", "127.0.0.1:65535"].map(str::to_owned);
        lines.extend(head(u64::MAX, (64, 1.5), &pages).lines().map(str::to_owned));
        lines.extend(behind(&[("all regions".into(), slow(), faster)]));
        assert!(lines.len() > 2 + 2 * 4 + 3, "{lines:?}");
        for line in &lines {
            assert!(line.chars().count() <= WIDTH, "{}: {line}", line.chars().count());
        }
        let longest = ["999 ms", "9.99 s", "99.9 s", "120 s"];
        let shown = [999.0, 9_990.0, 99_900.0, 119_999.0].map(|ms| time(Some(ms)));
        assert_eq!(shown, longest);
    }

    // A run that was stopped early says how long it was, and that no replica was killed.
    #[test]
    fn a_short_run_is_no_long_one() {
        let text = |seconds, killed| title(Duration::from_secs(seconds), 3, killed);
        let stopped = text(12, None).replace('\n', " ");
        assert!(stopped.contains("demo, 12 s, 3") && stopped.ends_with("no replica killed"));
        let whole = text(60, Some(("us-engine-2".to_owned(), Duration::from_secs(30))));
        assert!(whole.replace('\n', " ").ends_with("us-engine-2 killed at 30 s"), "{whole}");
        assert!(whole.lines().all(|line| line.chars().count() <= WIDTH));
    }

    // Equal figures are not ahead, and unknown ones are not compared.
    #[test]
    fn a_rival_that_is_ahead_is_named() {
        let ours = Tallied { p50: Some(61.4), p90: Some(100.0), whole: None, ..Tallied::default() };
        let other = Tallied { p50: Some(47.0), whole: Some(1.0), ..ours };
        let lines = behind(&[("asia".into(), ours, other)]);
        assert_eq!(lines, ["  TTFT p50 in asia: 47 ms against 61 ms"]);
    }

    // A text keeps its words, in lines that fit.
    #[test]
    fn long_texts_are_wrapped() {
        let text = "Four H100 answer sooner. ".repeat(12);
        let all = wrapped(&text);
        assert!(all.lines().count() > 3 && all.lines().all(|line| line.chars().count() <= WIDTH));
        assert_eq!(all.replace('\n', " "), text.trim());
    }
}
