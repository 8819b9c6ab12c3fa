//! Settings with which transfer libraries mark their packets.
//!
//! The libraries mark RoCE packets only: their TCP sockets are unmarked, and an nftables rule marks
//! those by port.

use std::fmt::Write as _;

use super::class::{COLLECTIVE, Class, KV};

/// Bits of a traffic class that allow switches to mark congestion instead of dropping: ECT(0), as
/// in UCX's own default of 106, which is code point 26.
const ECN_CAPABLE: u8 = 0b10;

fn traffic_class(class: Class) -> u8 {
    class.byte() | ECN_CAPABLE
}

/// The settings as lines of a shell script, and the rule for TCP as comments.
#[must_use]
pub fn environment() -> String {
    let (collective, kv) = (traffic_class(COLLECTIVE), traffic_class(KV));
    let mut text = String::new();
    let mut line = |line: &str| writeln!(text, "{line}").expect("a string takes all text");
    line(
        "# RoCE. A traffic class is DSCP x 4, plus 2: packets may be marked for congestion (ECN).",
    );
    line(
        "# On InfiniBand these have no effect on queues; service levels (NCCL_IB_SL) choose them.",
    );
    line(&format!("# Collectives, DSCP {}:", COLLECTIVE.dscp));
    line(&format!("export NCCL_IB_TC={collective}"));
    line(&format!("# KV, DSCP {}: NIXL through UCX, and Mooncake.", KV.dscp));
    line(&format!("export UCX_IB_TRAFFIC_CLASS={kv}"));
    line(&format!("export MC_IB_TC={kv}"));
    line("# NCCL and UCX mark no TCP sockets. Give UCX a range of ports, and mark those packets:");
    line("export UCX_TCP_PORT_RANGE=18500-18999");
    line("#   nft add table inet kv");
    line("#   nft add chain inet kv out '{ type filter hook postrouting priority mangle; }'");
    for (field, family) in [("ip dscp", "ipv4"), ("ip6 dscp", "ipv6")] {
        for side in ["sport", "dport"] {
            line(&format!(
                "#   nft add rule inet kv out meta nfproto {family} tcp {side} 18500-18999 {field} \
                 set {}",
                KV.dscp
            ));
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    // The settings carry the code points of the rules, shifted past the ECN bits.
    #[test]
    fn values_match_the_code_points() {
        let text = environment();
        for expected in ["NCCL_IB_TC=174\n", "UCX_IB_TRAFFIC_CLASS=78\n", "MC_IB_TC=78\n"] {
            assert!(text.contains(expected), "{text}");
        }
        assert_eq!((174 >> 2, 78 >> 2), (COLLECTIVE.dscp, KV.dscp));
    }
}
