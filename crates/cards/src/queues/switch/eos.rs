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
    text += "interface Ethernet1\n   qos trust dscp\n";
    // EOS serves queues from the top: one in round robin must not stand above a strict one.
    for Queue { number, weight, .. } in queues {
        text +=
            &format!("   tx-queue {number}\n      no priority\n      bandwidth percent {weight}\n");
    }
    text
}
