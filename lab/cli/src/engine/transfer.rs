//! Flags of `meridian engine` for prefill and decode on different engines.

use crate::up::duration;
use meridian_engined::{LoadFailure, Role, Transfer};
use std::net::SocketAddr;
use std::time::Duration;

/// Flags of the transfer of KV.
#[derive(Debug, clap::Args)]
pub(super) struct TransferArgs {
    /// The part of requests that the engine is meant for, shown in its metrics. A request's own
    /// `kv_transfer_params` say which leg it is, as in vLLM.
    #[arg(long, value_enum, default_value_t = RoleName::Both, conflicts_with = "plan")]
    role: RoleName,
    /// Address at which other engines fetch KV, named in the answers of prefill legs; port 0 is any
    /// free one.
    #[arg(long, value_name = "HOST:PORT", default_value = "127.0.0.1:0")]
    side_channel: SocketAddr,
    /// Address that answers of prefill legs name in its place, if other engines reach the side channel
    /// through a relay.
    #[arg(long, value_name = "HOST:PORT")]
    side_channel_announce: Option<SocketAddr>,
    /// How long the blocks of a prefill leg are held for a decode leg, in model time.
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = duration)]
    kv_lease: Duration,
    /// Bytes sent for each byte of KV [default: 1/1024]. The time of a transfer does not depend on
    /// it.
    #[arg(long, value_name = "FACTOR", default_value_t = 1.0 / 1024.0, hide_default_value = true)]
    kv_scale: f64,
    /// Rate at which this engine sends KV, and at which it receives KV, in Gb/s.
    #[arg(long, value_name = "GBPS", default_value_t = 100.0, conflicts_with = "plan")]
    kv_link_gbps: f64,
    /// Flow policy by which the transfers of this engine's card go, `mfs` or another of `meridian flow
    /// policies` [default: they share the card]
    #[arg(long, value_name = "POLICY", conflicts_with = "plan")]
    flow_policy: Option<String>,
    /// What happens to a decode leg whose KV can't be fetched.
    #[arg(long, value_enum, default_value_t = Policy::Fail, conflicts_with = "plan")]
    kv_load_failure_policy: Policy,
}

#[derive(Debug, Clone, Copy, clap::ValueEnum)]
enum RoleName {
    /// Whole requests and either leg
    Both,
    /// Prefill legs
    Prefill,
    /// Decode legs
    Decode,
}

#[derive(Debug, Clone, Copy, clap::ValueEnum)]
enum Policy {
    /// The answer is a 500
    Fail,
    /// The engine computes the prompt itself
    Recompute,
}

impl TransferArgs {
    /// The flags on top of an instance's own role, routes and answer to KV that can't be fetched.
    pub(super) fn of(&self, planned: Transfer) -> Transfer {
        let Transfer { role, routes, load_failure, .. } = planned;
        Transfer { role, routes, load_failure, ..self.transfer() }
    }

    pub(super) fn transfer(&self) -> Transfer {
        Transfer {
            role: match self.role {
                RoleName::Both => Role::Both,
                RoleName::Prefill => Role::Prefill,
                RoleName::Decode => Role::Decode,
            },
            side_channel: self.side_channel,
            announce: self.side_channel_announce,
            lease: self.kv_lease,
            scale: self.kv_scale,
            link_gbps: self.kv_link_gbps,
            flow_policy: self.flow_policy.clone(),
            load_failure: match self.kv_load_failure_policy {
                Policy::Fail => LoadFailure::Fail,
                Policy::Recompute => LoadFailure::Recompute,
            },
            ..Transfer::default()
        }
    }
}
