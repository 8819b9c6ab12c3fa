//! Juniper Junos (QFX with port scheduling).

use super::Queue;

pub(super) fn template(queues: &[Queue]) -> String {
    let mut text = String::from(
        "# Juniper QFX. Not tried on hardware. The defaults put fcoe and no-loss into queues 3\n\
         # and 4; where those are in use, choose other queues.\n\
         set class-of-service classifiers dscp meridian import default\n",
    );
    for Queue { number, weight, dscps, holds } in queues {
        let (class, set) = (format!("meridian-{number}"), "set class-of-service");
        let class = if dscps.is_empty() { "best-effort" } else { &class };
        text += &format!("# {holds}\n");
        if !dscps.is_empty() {
            text += &format!("{set} forwarding-classes class {class} queue-num {number}\n");
        }
        for dscp in dscps {
            text += &format!(
                "{set} classifiers dscp meridian forwarding-class {class} loss-priority low \
                 code-points {dscp:06b}\n"
            );
        }
        text += &format!(
            "{set} schedulers meridian-{number} transmit-rate percent {weight}\n\
             {set} schedulers meridian-{number} priority low\n\
             {set} scheduler-maps meridian forwarding-class {class} scheduler meridian-{number}\n"
        );
    }
    // A map of schedulers replaces the default one, which serves control traffic.
    text + "# The network's control traffic\n\
            set class-of-service schedulers meridian-control priority strict-high\n\
            set class-of-service scheduler-maps meridian forwarding-class network-control \
            scheduler meridian-control\n\
            set class-of-service interfaces et-0/0/0 scheduler-map meridian\n\
            set class-of-service interfaces et-0/0/0 unit 0 classifiers dscp meridian\n"
}
