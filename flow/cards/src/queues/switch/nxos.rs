//! Cisco NX-OS with eight queues (Nexus 9000).

use super::{Queue, join};

pub(super) fn template(queues: &[Queue]) -> String {
    let marked: Vec<&Queue> = queues.iter().filter(|one| !one.dscps.is_empty()).collect();
    let mut text = String::from("! Cisco Nexus 9000. Not tried on hardware.\n");
    for Queue { number, dscps, holds, .. } in &marked {
        let dscps = join(dscps, ",");
        text += &format!(
            "! {holds}\nclass-map type qos match-any meridian-{number}\n  match dscp {dscps}\n"
        );
    }
    text += "policy-map type qos meridian-in\n";
    for Queue { number, .. } in &marked {
        text += &format!("  class meridian-{number}\n    set qos-group {number}\n");
    }
    // A policy lists all eight queues, and their percentages are 100 together.
    text += "policy-map type queuing meridian-out\n\
             \x20 class type queuing c-out-8q-q7\n    priority level 1\n";
    for number in (0..7).rev() {
        let weight = queues.iter().find(|one| one.number == number).map_or(0, |one| one.weight);
        let name = if number == 0 { "-default".into() } else { number.to_string() };
        text += &format!(
            "  class type queuing c-out-8q-q{name}\n    bandwidth remaining percent {weight}\n"
        );
    }
    text + "system qos\n  service-policy type queuing output meridian-out\n\
            interface Ethernet1/1\n  service-policy type qos input meridian-in\n"
}
