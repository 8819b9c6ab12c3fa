//! The answer for programs: `what-if.json`, and every row as a table with a column for each field.

use meridian_routing::{ShadowTotals, Would};
use meridian_tools::flat::Flat;
use meridian_tools::load::Quantiles;
use serde_json::{Value, json};

use super::answer::{Answer, Found, Least};
use super::interval::{self, GOODPUT, MET};
use super::live::Live;
use super::question::Question;
use super::rows::Row;
use super::{headline, table};

/// The whole answer.
pub(super) fn json(question: &Question, answer: &Answer, command: &str) -> Value {
    json!({
        "command": command,
        "sentence": headline::sentence(question, answer),
        "least_sentence": headline::least(question, answer),
        "traffic": {
            "name": question.traffic.name,
            "requests": answer.requests,
            "seconds": answer.seconds,
            "warmup_s": question.warmup.as_secs_f64(),
        },
        "slo": {
            "ttft_s": question.slo.ttft.map(|limit| limit.as_secs_f64()),
            "tpot_s": question.slo.tpot.map(|limit| limit.as_secs_f64()),
            "e2e_s": question.slo.e2e.map(|limit| limit.as_secs_f64()),
            "share": question.slo.share,
        },
        "model": question.model,
        "tp": question.tp,
        "seeds": question.seeds,
        "rows": answer.rows.iter().map(row).collect::<Vec<_>>(),
        "least": answer.least.iter().map(least).collect::<Vec<_>>(),
        "overloaded": table::overloads(answer),
        "notes": answer.notes,
        "shadow": question.traffic.shadow.as_ref().map(|live| shadow(live, answer)),
    })
}

/// The shadow of the journal, and of the rows that have it.
fn shadow(live: &Live, answer: &Answer) -> Value {
    let figures = |totals: &ShadowTotals| {
        let decisions = Would::ALL.iter().zip(totals.decisions);
        json!({
            "decisions": decisions.map(|(w, n)| (w.word().to_owned(), n.into())).collect::<serde_json::Map<_, _>>(),
            "compared": totals.compared,
            "compared_same": totals.compared_same,
            "prompt_tokens": totals.prompt_tokens,
            "matched_tokens": totals.matched_tokens,
            "shadow_matched_tokens": totals.shadow_matched_tokens,
            "first_token_ms": totals.first_token_ms,
            "shadow_first_token_ms": totals.shadow_first_token_ms,
        })
    };
    let rows = answer.rows.iter().map(|row| (row, row.shadow())).filter(|(_, sums)| sums.all() > 0);
    let simulated = rows.map(|(row, sums)| json!({"fleet": row.fleet, "sums": figures(&sums)}));
    json!({
        "policy": live.policy.name,
        "shadow": live.shadow.name,
        "live": figures(&live.totals),
        "simulated": simulated.collect::<Vec<_>>(),
    })
}

fn least(least: &Least) -> Value {
    let (fleet, most) = match &least.found {
        Found::Fleet(fleet) => (Some(row(fleet)), None),
        Found::NoneUpTo(most) => (None, Some(most)),
    };
    json!({
        "policy": least.policy,
        "arrangement": least.arrangement,
        "fleet": fleet,
        "none_up_to_replicas": most,
        "nearest": least.nearest.as_deref().map(row),
    })
}

fn row(row: &Row) -> Value {
    let fields = fields(row).into_iter().map(|(name, value)| (name.to_owned(), value));
    Value::Object(fields.collect())
}

fn fields(row: &Row) -> Vec<(&'static str, Value)> {
    vec![
        ("policy", json!(row.policy)),
        ("arrangement", json!(row.arrangement)),
        ("fleet", json!(row.fleet)),
        ("replicas", json!(row.replicas)),
        ("gpus", json!(row.gpus)),
        ("requests", json!(row.requests)),
        ("goodput_rps", json!(row.goodput_rps)),
        ("throughput_rps", json!(row.throughput_rps)),
        ("slo_attainment", json!(row.met)),
        ("meets_slo", json!(row.meets)),
        ("ttft_ms", quantiles(row.ttft_ms)),
        ("tpot_ms", quantiles(row.tpot_ms)),
        ("prefix_hit_ratio", json!(row.hits)),
        ("forwarded_ratio", json!(row.forwarded)),
        ("split_ratio", json!(row.split)),
        ("refused_ratio", json!(row.refused)),
        ("too_long_ratio", json!(row.invalid)),
        ("cut_ratio", json!(row.cut)),
        ("usd_per_hour", json!(row.usd_per_hour())),
        ("egress_usd_per_hour", json!(row.egress_usd_per_hour)),
        ("overloaded", json!(row.overloaded.as_ref().map(|overload| &overload.why))),
        (
            "demand_over_capacity",
            json!(row.overloaded.as_ref().and_then(|overload| overload.demand)),
        ),
        ("intervals", intervals(row)),
    ]
}

/// The ends of the 95 % intervals, by the names of their figures; `null` under one seed.
fn intervals(row: &Row) -> Value {
    let each = |of: Option<[Quantiles; 2]>| {
        of.map_or(Value::Null, |[low, high]| {
            json!({
                "mean": [low.mean, high.mean],
                "p50": [low.p50, high.p50],
                "p90": [low.p90, high.p90],
                "p95": [low.p95, high.p95],
                "p99": [low.p99, high.p99],
            })
        })
    };
    if row.runs.len() == 1 {
        return Value::Null;
    }
    json!({
        "goodput_rps": interval::ends(row, GOODPUT),
        "slo_attainment": interval::ends(row, MET),
        "ttft_ms": each(interval::quantiles(row, |run| run.ttft_ms)),
        "tpot_ms": each(interval::quantiles(row, |run| run.tpot_ms)),
    })
}

fn quantiles(of: Option<Quantiles>) -> Value {
    of.map_or(Value::Null, |Quantiles { mean, p50, p90, p95, p99 }| {
        json!({"mean": mean, "p50": p50, "p90": p90, "p95": p95, "p99": p99})
    })
}

/// Every row, and those of the least fleets and their nearest, as a table.
pub(super) fn flat(answer: &Answer) -> Flat {
    let found = answer.least.iter().flat_map(|least| {
        let own = match &least.found {
            Found::Fleet(row) => Some(&**row),
            Found::NoneUpTo(_) => None,
        };
        least.nearest.as_deref().into_iter().chain(own)
    });
    let more = found.filter(|row| !answer.rows.contains(row));
    let all = answer.rows.iter().chain(more).map(fields);
    let named = |row: Vec<(&'static str, Value)>| {
        row.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
    };
    Flat::new(all.map(named))
}
