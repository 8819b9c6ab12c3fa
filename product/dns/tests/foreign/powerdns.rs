//! PowerDNS with its geoip backend, whose services map prefixes to names.

use std::fmt::Write;
use std::process::Command;

use crate::common::{REGIONS, ZONE};
use crate::compare::{check, has_others, rows};
use crate::processes::{Process, find, folder, free};
use crate::questions::CLIENTS;

const PACKAGES: &str = "pdns-server pdns-backend-geoip";

fn start() -> Process {
    let program = find("pdns_server", PACKAGES);
    let folders = std::fs::read_dir("/usr/lib").unwrap().filter_map(Result::ok);
    let backend = folders.map(|folder| folder.path().join("pdns/libgeoipbackend.so"));
    let there = backend.into_iter().any(|backend| backend.exists());
    assert!(there, "the geoip backend of PowerDNS is missing: apt-get install {PACKAGES}");
    let folder = folder("powerdns");
    let zones = folder.join("zones.yaml");
    std::fs::write(&zones, zone()).unwrap();
    let at = free();
    let mut command = Command::new(program);
    command.args([
        "--no-config",
        "--launch=geoip",
        "--daemon=no",
        "--guardian=no",
        "--write-pid=no",
    ]);
    // Its packet cache would answer a question once for several subnets of one scope.
    command.args(["--cache-ttl=0", "--query-cache-ttl=0", "--negquery-cache-ttl=0"]);
    command.args([
        "--edns-subnet-processing=yes",
        "--geoip-database-files=",
        "--zone-cache-refresh-interval=0",
    ]);
    command.arg(format!("--geoip-zones-file={}", zones.display()));
    command.arg(format!("--socket-dir={}", folder.display()));
    command.arg(format!("--local-address={}", at.ip())).arg(format!("--local-port={}", at.port()));
    Process::start(command, folder, at, ZONE)
}

fn zone() -> String {
    let mut text = format!("domains:\n- domain: {ZONE}\n  ttl: 10\n  records:\n");
    let soa = "ns1.llm.example.org hostmaster.llm.example.org 1 7200 3600 86400 5";
    writeln!(text, "    {ZONE}:\n      - soa: {soa}\n      - ns: ns1.{ZONE}").unwrap();
    for (name, [first, second, v6]) in REGIONS {
        writeln!(
            text,
            "    {name}.{ZONE}:\n      - a: {first}\n      - a: {second}\n      - aaaa: {v6}"
        )
        .unwrap();
    }
    writeln!(text, "  services:\n    {ZONE}:\n      default: [us.{ZONE}]").unwrap();
    for (prefix, region) in CLIENTS {
        writeln!(text, "      {prefix}: [{region}.{ZONE}]").unwrap();
    }
    text
}

// PowerDNS chooses the same region for every subnet that has one. Its scope is the length of the
// longest prefix in the whole map: right for these subnets, and mostly longer than ours. A subnet of
// several regions gets the region of the prefix around it, though its scope has clients of another.
#[test]
fn powerdns_gives_the_same_regions() {
    let server = start();
    let rows = rows(server.at);
    let difference = check("PowerDNS", &rows);
    assert_eq!(difference.shorter, 0);
    for row in &rows {
        let longest = if row.subnet.address.is_ipv4() { 32 } else { 49 };
        assert_eq!(row.theirs.scope, longest, "{row:?}");
        let unsound = has_others(&rows, row, longest, &row.theirs.region);
        assert_eq!(unsound, row.ours.region != row.theirs.region, "{row:?}");
    }
}
