//! gdnsd with its geoip plugin, whose maps have a list of prefixes (`nets`).

use std::fmt::Write;
use std::process::Command;

use crate::common::{REGIONS, ZONE};
use crate::compare::{Difference, check, rows};
use crate::processes::{Process, find, folder, free};
use crate::questions::CLIENTS;

fn start() -> Process {
    let program = find("gdnsd", "gdnsd");
    let folder = folder("gdnsd");
    let at = free();
    std::fs::create_dir_all(folder.join("zones")).unwrap();
    std::fs::write(folder.join("config"), config(&folder, at.port())).unwrap();
    std::fs::write(folder.join("zones").join(ZONE), ZONE_FILE).unwrap();
    let mut command = Command::new(program);
    command.arg("-c").arg(&folder).arg("start");
    Process::start(command, folder, at, ZONE)
}

const ZONE_FILE: &str = "@ 3600 SOA ns1 hostmaster 1 7200 1800 86400 5\n@ 3600 NS ns1\n\
    ns1 3600 A 127.0.0.1\n@ 10 DYNA geoip!gateways\n";

fn config(folder: &std::path::Path, port: u16) -> String {
    let folder = folder.display();
    let mut text = format!(
        "options => {{ listen => [127.0.0.1], dns_port => {port}, run_dir => {folder}/run, \
         state_dir => {folder}/state }}\n\
         plugins => {{ geoip => {{\n maps => {{ clients => {{\n  datacenters => [us, eu, ap]\n  nets => {{\n"
    );
    for (prefix, region) in CLIENTS {
        // The default of a map is its list of datacenters, so that of us is the same list.
        let others = ["us", "eu", "ap"].into_iter().filter(|other| *other != region);
        let order: Vec<&str> = [region].into_iter().chain(others).collect();
        writeln!(text, "   {prefix} => [{}]", order.join(", ")).unwrap();
    }
    text += "  }\n } }\n resources => { gateways => { map => clients, service_types => [up], dcmap => {\n";
    for (name, [first, second, v6]) in REGIONS {
        writeln!(text, "  {name} => {{ addrs_v4 => [{first}, {second}], addrs_v6 => [{v6}] }}")
            .unwrap();
    }
    text + " } } }\n} }\n"
}

// gdnsd gives every subnet the same region and the same scope, also those with several regions.
#[test]
fn gdnsd_gives_the_same_answers() {
    let server = start();
    let rows = rows(server.at);
    assert_eq!(check("gdnsd", &rows), Difference::default());
    for row in rows {
        assert_eq!(row.ours, row.theirs, "{:?}", row.subnet);
    }
}
