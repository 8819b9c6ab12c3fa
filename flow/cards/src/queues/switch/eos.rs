//! Arista EOS.

use super::{Queue, join};

pub(super) fn template(queues: &[Queue]) -> String {
    let mut text = String::from(
        "! Arista EOS. Not tried on hardware; some platforms say uc-tx-queue for tx-queue.\n\
         ! Traffic class n goes to queue n by default.\n",
    );
    for Queue { number, dscps, holds, .. } in queues.iter().filter(|one| !one.dscps.is_empty()) {
        let dscps = join(dscps, " ");
        text += &format!("! {holds}\nqos map dscp {dscps} to traffic-class {number}\n");
    }
    text += "qos profile meridian\n   qos trust dscp\n";
    // A queue in round robin takes those below it along, so the highest one decides.
    for Queue { number, weight, .. } in queues {
        text +=
            &format!("   tx-queue {number}\n      bandwidth percent {weight}\n      no priority\n");
    }
    text + "interface Ethernet1\n   service-profile meridian\n"
}
