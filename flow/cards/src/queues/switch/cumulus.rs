//! Cumulus Linux, by NVUE (5.3 and later).

use super::{Queue, join};

pub(super) fn template(queues: &[Queue]) -> String {
    let mut text = String::from(
        "# Cumulus Linux 5.3 and later. Not tried on hardware.\n\
         nv set qos mapping default-global trust l3\n",
    );
    let mut strict: Vec<u8> = (0..8).collect();
    for Queue { number, weight, dscps, holds } in queues {
        strict.retain(|one| one != number);
        text += &format!("# {holds}\n");
        if !dscps.is_empty() {
            let dscps = join(dscps, ",");
            text += &format!(
                "nv set qos mapping default-global dscp {dscps} switch-priority {number}\n"
            );
        }
        text += &format!(
            "nv set qos egress-queue-mapping default-global switch-priority {number} \
             traffic-class {number}\n\
             nv set qos egress-scheduler default-global traffic-class {number} mode dwrr\n\
             nv set qos egress-scheduler default-global traffic-class {number} bw-percent {weight}\n"
        );
    }
    strict.retain(|number| *number >= 6);
    text += &format!(
        "# The network's control traffic\n\
         nv set qos egress-scheduler default-global traffic-class {} mode strict\n\
         nv config apply\n",
        join(&strict, ",")
    );
    text
}
