//! The progress of a run: a bar with the time left on a terminal, or lines of JSON.

use std::io::{IsTerminal, Write};
use std::sync::Arc;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use meridian_tools::load::{Live, Options, Progress};
use meridian_tools::sweep::{Phase, Step, Watch};

/// The progress of one run; `None` without a terminal.
pub(super) fn of_run(options: &Options, live_json: bool) -> Option<Box<dyn Progress>> {
    if live_json {
        return Some(Box::new(|live: &Live| {
            let line = serde_json::to_string(live).expect("counts are always JSON");
            let mut out = std::io::stdout().lock();
            // The reader may have closed the pipe; the run and its report continue.
            writeln!(out, "{line}").and_then(|()| out.flush()).ok();
        }));
    }
    bar(options.duration, options.requests)
}

/// A bar over a time, or over a number of requests.
pub(super) fn bar(length: Option<Duration>, requests: Option<u64>) -> Option<Box<dyn Progress>> {
    let bar = terminal(length.map(|d| d.as_millis() as u64).or(requests))?;
    let timed = length.is_some();
    Some(Box::new(move |live: &Live| {
        bar.set_position(if timed { (live.t_s * 1e3) as u64 } else { live.ok + live.errors });
        bar.set_message(words(live));
    }))
}

/// The progress of a sweep whose windows, warm-up included, take `each`.
pub(super) fn of_sweep(each: Duration) -> Option<Watch> {
    let bar = terminal(Some(1))?;
    let each = each.as_secs_f64();
    Some(Arc::new(move |step: &Step, live: &Live| {
        let ms = |seconds: f64| (seconds * 1e3) as u64;
        let here = live.t_s.min(each);
        bar.set_length(ms(f64::from(step.done + step.left) * each));
        bar.set_position(ms(f64::from(step.done) * each + here));
        let left = Duration::from_secs((f64::from(step.left) * each - here).max(0.0) as u64);
        let part = match step.phase {
            Phase::Search => "round",
            Phase::Confirm => "fresh window",
        };
        bar.set_message(format!(
            "about {} left; {part} {}, {} requests/s: {}",
            indicatif::HumanDuration(left),
            step.round,
            step.rate,
            words(live)
        ));
    }))
}

fn words(live: &Live) -> String {
    let p50 = live.recent_ttft_ms.p50.map_or("-".into(), |ms| format!("{ms:.0} ms"));
    format!(
        "{} ok, {} errors, {} on, {:.0}/s, TTFT p50 {p50}",
        live.ok, live.errors, live.in_flight, live.rps
    )
}

fn terminal(length: Option<u64>) -> Option<ProgressBar> {
    if !std::io::stderr().is_terminal() {
        return None;
    }
    let bar = ProgressBar::with_draw_target(length, ProgressDrawTarget::stderr());
    let template = match length {
        Some(1) | None => "{wide_bar} {elapsed} {msg}",
        Some(_) => "{wide_bar} {elapsed}, {eta} left, {msg}",
    };
    bar.set_style(ProgressStyle::with_template(template).expect("the template is a constant"));
    Some(bar)
}
