//! Filters of `tc` that tell packets apart by code point.

use super::class::{Class, Classes, EIGHT, KV};
use super::script::Script;

/// Two filters a class, for IPv4 and IPv6, that put packets of `class` into `flowid`.
///
/// They read the first 16 bits of the IP header: version, header length and TOS of IPv4; version
/// and traffic class of IPv6. With `protocol all` they also see packets of a VLAN whose tag the
/// card adds, which `protocol ip` does not. ECN bits are masked out.
pub(crate) fn filters(script: &mut Script, device: &str, parent: &str, class: Class, flowid: &str) {
    let ipv4 = 0x4000 | u16::from(class.byte());
    let ipv6 = 0x6000 | (u16::from(class.dscp) << 6);
    for (value, mask) in [(ipv4, 0xf0fc_u16), (ipv6, 0xffc0)] {
        script.tc(format!(
            "filter add dev {device} parent {parent} protocol all pref 10 u32 match u16 \
             {value:#06x} {mask:#06x} at 0 flowid {flowid}"
        ));
    }
}

/// A comment for each code point that `classes` distinguish.
pub(crate) fn legend(script: &mut Script, classes: Classes) {
    script.note("Classes by DSCP (IPv4's TOS and IPv6's traffic class without their ECN bits):");
    for class in EIGHT.iter().filter(|class| classes.fold(**class) == **class) {
        let Class { name, dscp, carries, .. } = class;
        let is_all_kv = classes == Classes::Two && *class == KV;
        let carries =
            if is_all_kv { "all KV, also with another class of the eight" } else { carries };
        script.note(format!("  {dscp:>2} {name:<10} {carries}"));
    }
    script.note("Filters read the first 16 bits of the IP header, with both forms of each class.");
    script.note("Where these rules are set already, delete the root first; --apply does.");
}
