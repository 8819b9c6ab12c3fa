//! What a decision costs under a policy that is an expression, beside the built-in one with the same
//! rule.
//!
//! The rules are the shipped examples, on the same replicas, index and requests.

use meridian_base::{Rng, Time};
use meridian_routing::Config;
use meridian_tools::rule::Rule;

use super::world::DecisionFleet;
use super::{Options, SEED, decide};
use crate::harness::Results;

const LLMD: &str = include_str!("../../../../examples/expressions/llmd.yaml");
const OURS: &str = include_str!("../../../../examples/expressions/ours.yaml");

/// The median time of a decision under each.
pub(super) fn deciding(options: &Options, results: &mut Results) -> anyhow::Result<()> {
    let fleet = DecisionFleet::new(SEED, options.replicas, options.blocks);
    for (name, rule) in [
        ("decision, llmd_blend, p50", Rule::given("llmd_blend")?),
        ("llmd_blend as an expression, p50", Rule::read(LLMD, "llmd.yaml")?),
        ("decision, meridian, p50", Rule::given("meridian")?),
        ("meridian as an expression, p50", Rule::read(OURS, "ours.yaml")?),
    ] {
        let Rule { params, admission, .. } = rule;
        let config = Config { params, admission, ..Config::new(rule.spec) };
        let mut routing = fleet.routing_of(SEED, config)?;
        let mut rng = Rng::new(SEED).fork(2);
        let now = Time::from_millis(1_000_000);
        let decided = decide(&mut routing, now, options.samples, |_, _| {
            fleet.request(fleet.returning(&mut rng))
        })?;
        results.add(name, "us", decided.decision.p50);
    }
    Ok(())
}
