//! Templates are complete, and their shares are those of the whole port.

use super::*;

const ALL: [Vendor; 5] = [Vendor::Sonic, Vendor::Cumulus, Vendor::Eos, Vendor::Nxos, Vendor::Junos];

fn weights(classes: Classes, floor: &str) -> Weights {
    Weights::new(classes, floor.parse().unwrap(), "5%".parse().unwrap()).unwrap()
}

// The weights of a port are 100 together, each at least 1, and every class has one queue.
#[test]
fn queues_share_the_whole_port() {
    for classes in [Classes::Two, Classes::Eight] {
        for floor in ["1%", "7%", "10%", "45%"] {
            let queues = weights(classes, floor).queues();
            assert_eq!(queues.iter().map(|queue| u32::from(queue.weight)).sum::<u32>(), 100);
            assert!(queues.iter().all(|queue| queue.weight > 0), "{queues:?}");
            let mut dscps: Vec<u8> = queues.iter().flat_map(|queue| queue.dscps.clone()).collect();
            dscps.sort_unstable();
            assert_eq!(dscps, [11, 19, 27, 31, 35, 39, 43, 47], "{classes:?} {floor}");
        }
    }
}

// Every template maps every code point and gives each queue its weight.
#[test]
fn templates_are_complete() {
    for vendor in ALL {
        for classes in [Classes::Two, Classes::Eight] {
            let weights = weights(classes, "10%");
            let text = vendor.template(weights);
            for queue in weights.queues() {
                assert!(text.contains(&queue.weight.to_string()), "{vendor:?}\n{text}");
                for dscp in queue.dscps {
                    let bits = format!("{dscp:06b}");
                    assert!(text.contains(&dscp.to_string()) || text.contains(&bits), "{text}");
                }
            }
        }
    }
}

// SONiC's template is JSON in which the code points have the queues of the other templates.
#[test]
fn sonic_reads_as_json() {
    let text = Vendor::Sonic.template(weights(Classes::Two, "10%"));
    let read: serde_json::Value = serde_json::from_str(&text).unwrap();
    let map = &read["DSCP_TO_TC_MAP"]["MERIDIAN"];
    assert_eq!(
        [&map["43"], &map["47"], &map["19"], &map["0"], &map["48"]],
        ["5", "2", "2", "0", "6"]
    );
    assert_eq!(read["SCHEDULER"]["meridian.5"]["weight"], "85");
    assert_eq!(read["QUEUE"]["Ethernet0|2"]["scheduler"], "meridian.2");
}
