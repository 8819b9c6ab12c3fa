//! Turns the engine on recorded requests, for `fit/measured.py`.
//!
//! The first line of stdin is `model gpu tp field=value...`; each further line is one request:
//! `arrival_s prompt_tokens reply_tokens hash...`, in order of arrival. Each line of stdout is a
//! request's TTFT, TPOT and E2E in milliseconds.
#![allow(clippy::unwrap_used, reason = "a tool for developers may panic")]

mod common;

use meridian_base::{RequestId, Time};
use meridian_engine::{Engine, Input, Output, Submission};
use std::io::BufRead;

fn submission(id: u64, line: &str) -> (Time, Submission) {
    let words: Vec<&str> = line.split_whitespace().collect();
    let at = words[0].parse::<f64>().unwrap();
    let reply_tokens = words[2].parse().unwrap();
    let submission = Submission {
        id: RequestId(id),
        prompt_tokens: words[1].parse().unwrap(),
        reply_tokens,
        max_tokens: reply_tokens,
        blocks: words[3..].iter().map(|word| word.parse().unwrap()).collect(),
    };
    (Time::from_nanos((at * 1e9) as u64), submission)
}

fn main() {
    let mut lines = std::io::stdin().lock().lines().map(|line| line.unwrap());
    let first = lines.next().unwrap();
    let words: Vec<&str> = first.split_whitespace().collect();
    let (config, _) = common::config(&words).expect("the model fits");
    let mut engine = Engine::new(config, 1).unwrap();
    let mut rows = Vec::new();
    let requests: Vec<_> = lines.enumerate().map(|(id, l)| submission(id as u64, &l)).collect();
    rows.resize(requests.len(), (0.0, 0.0, 0.0));
    let mut requests = requests.into_iter().peekable();
    loop {
        let due = engine.poll_timeout();
        if let Some((at, submission)) = requests.next_if(|(at, _)| due.is_none_or(|d| *at <= d)) {
            engine.handle(at, Input::Submit(submission));
            continue;
        }
        let Some(due) = due else { break };
        engine.handle_timeout(due);
        while let Some(output) = engine.poll() {
            if let Output::Finished { id, usage, timings, .. } = output {
                let ms = |d: meridian_base::Duration| d.as_secs_f64() * 1e3;
                let gaps = f64::from(usage.reply_tokens.max(2) - 1);
                let ttft = ms(timings.queued + timings.prefill);
                rows[id.0 as usize] = (ttft, ms(timings.decode) / gaps, ms(timings.e2e));
            }
        }
    }
    for (ttft, tpot, e2e) in rows {
        println!("{ttft:.3} {tpot:.4} {e2e:.3}");
    }
}
