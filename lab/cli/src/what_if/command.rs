//! The command that repeats a report, with every default spelled out.

use std::time::Duration;

use meridian_papers::what_if::{Arrangement, Question};
use meridian_tools::load::Slo;

use super::Args;
use super::source::Kind;

/// The command.
pub(super) fn of(args: &Args, question: &Question) -> String {
    let trace = match args.source.trace.starts_with('-') {
        true => format!("./{}", args.source.trace),
        false => args.source.trace.clone(),
    };
    let mut words = vec!["meridian".to_owned(), "what-if".to_owned(), trace];
    let mut flag = |name: &str, value: String| words.extend([format!("--{name}"), value]);
    requests(args, &mut flag);
    flag("gpu", question.gpus.to_string());
    flag("model", question.model.clone());
    flag("tp", question.tp.to_string());
    flag("replicas", args.fleets.replicas.to_string());
    flag("most", question.most.to_string());
    let pools: Vec<String> = question.arrangements.iter().filter_map(share).collect();
    if !pools.is_empty() {
        flag("pools", pools.join(","));
        flag("kv-gbps", question.kv_gbps.to_string());
    }
    if !question.prices.is_empty() {
        flag("price", question.prices.to_string());
    }
    let policies: Vec<&str> = question.policies.iter().map(|rule| &*rule.given).collect();
    flag("policies", policies.join(","));
    if let Some(regions) = &args.gateways.regions {
        flag("regions", regions.display().to_string());
    }
    flag("queue-max", question.held.max.to_string());
    flag("queue-wait", time(question.held.max_wait));
    flag("slo", slo(&question.slo));
    flag("warmup", time(question.warmup));
    flag("seeds", question.seeds.to_string());
    flag("out", args.out.display().to_string());
    for (word, given) in [("--lenient", args.source.lenient), ("--chained", args.source.chained)] {
        words.extend(given.then(|| word.to_owned()));
    }
    let quoted = |word: &String| {
        shlex::try_quote(word).map_or_else(|_| word.clone(), std::borrow::Cow::into_owned)
    };
    words.iter().map(quoted).collect::<Vec<_>>().join(" ")
}

/// The options of the requests that have an effect.
fn requests(args: &Args, flag: &mut impl FnMut(&str, String)) {
    let source = &args.source;
    let (Ok(kind), Ok(cut)) = (source.kind(), source.cut()) else { return };
    if let Some(format) = source.from {
        flag("from", format.name().to_owned());
    }
    if let Some(tokens) = source.from_block_tokens {
        flag("from-block-tokens", tokens.to_string());
    }
    flag("requests", cut.requests.to_string());
    if kind != Kind::Generator {
        flag("after", time(cut.after));
        if let Some(before) = cut.before {
            flag("before", time(before));
        }
    }
    if matches!(kind, Kind::Excerpt | Kind::File(_)) {
        flag("speed", cut.speed.to_string());
        flag("spread", time(cut.spread));
        if let Some(blocks) = cut.sessions_beyond {
            flag("sessions-beyond", blocks.to_string());
        }
        return;
    }
    if let Some(generator) = &source.generator {
        flag("generator", generator.clone());
    }
    for set in &source.set {
        flag("set", set.clone());
    }
    if let Some(rate) = source.shown_rate(kind) {
        flag("rate", rate.to_string());
    }
}

fn share(arrangement: &Arrangement) -> Option<String> {
    match arrangement {
        Arrangement::Pools(share) => Some(share.to_string()),
        Arrangement::Whole => None,
    }
}

/// A time as the command line reads it.
fn time(time: Duration) -> String {
    let seconds = time.as_secs_f64();
    match seconds < 1.0 && seconds > 0.0 {
        true => format!("{}ms", (seconds * 1e6).round() / 1e3),
        false => format!("{seconds}s"),
    }
}

fn slo(slo: &Slo) -> String {
    let limits = [("ttft", slo.ttft), ("tpot", slo.tpot), ("e2e", slo.e2e)];
    let limits =
        limits.iter().filter_map(|(name, limit)| Some(format!("{name}={}", time((*limit)?))));
    limits.chain([format!("share={}", slo.share)]).collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    // What is spelled is read back.
    #[test]
    fn spelled_values_are_read_back() {
        for ms in [0, 80, 1500, 120_000] {
            let given = Duration::from_millis(ms);
            assert_eq!(meridian_tools::load::seconds(&time(given)), Ok(given));
        }
        let given: Slo = "ttft=2s,tpot=80ms".parse().unwrap();
        assert_eq!(slo(&given), "ttft=2s,tpot=80ms,share=0.95");
        assert_eq!(slo(&given).parse(), Ok(given));
    }
}
