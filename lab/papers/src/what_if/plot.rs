//! The plot: GPUs against P90 TTFT with its interval, a line for each policy.

use meridian_tools::plot::{Line, Point, lines};
use meridian_tools::stats::Mean;

use super::answer::Answer;
use super::interval::{self, TTFT_P90};
use super::names::named_as;
use super::question::Question;

/// The title of the plot.
pub(super) const TITLE: &str = "P90 TTFT by the number of GPUs";

/// The plot as SVG.
///
/// # Errors
/// Those of the library.
pub(super) fn svg(question: &Question, answer: &Answer) -> anyhow::Result<String> {
    let kinds: Vec<String> = question.gpus.names().map(str::to_ascii_uppercase).collect();
    let x = format!("GPUs ({})", kinds.join(" and "));
    let drawn = lines(TITLE, [&x, "P90 TTFT, s (logarithmic)"], &of(answer), true)?;
    let words = format!("<title>{TITLE}</title>");
    // A screen reader reads the title; the figures are in the table.
    let svg = drawn.replacen("<svg ", "<svg role=\"img\" ", 1);
    Ok(match svg.find('>') {
        Some(end) => format!("{}\n{words}{}", &svg[..=end], &svg[end + 1..]),
        None => svg,
    })
}

fn of(answer: &Answer) -> Vec<Line> {
    let mut all: Vec<Line> = Vec::new();
    for row in &answer.rows {
        let Some(Mean { mean, low, high }) = interval::mean(row, TTFT_P90) else { continue };
        let [mean, low, high] = [mean, low, high].map(|ms| ms / 1e3);
        let point = Point { x: f64::from(row.gpus), mean, low, high };
        let name = named_as(&row.policy, &row.arrangement);
        match all.iter_mut().find(|(known, _)| *known == name) {
            Some((_, points)) => points.push(point),
            None => all.push((name, vec![point])),
        }
    }
    all
}
