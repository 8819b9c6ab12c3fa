//! The parts of a program in which it spends its CPU time: samples of perf, by the crate of the
//! function that ran.
//!
//! A function that the compiler wrote inline counts for its caller, and a generic function for the
//! crate that defines it, not for the one that uses it. So the shares are rough.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, ensure};

/// The share of each part, 0 to 1.
pub(super) type Profile = BTreeMap<&'static str, f64>;

/// Samples a second: a prime, so that they follow no timer.
const RATE: &str = "1999";

/// Parts, in the order of the table, with the prefixes of their functions.
const PARTS: [(&str, &[&str]); 8] = [
    ("HTTP", &["hyper", "httparse", "http", "h2", "ngx_http", "Envoy::Http"]),
    ("JSON and wire", &["meridian_protocol", "serde", "memchr", "itoa", "ryu"]),
    ("routing", &["meridian_routing", "meridian_base"]),
    ("relay", &["meridian_gateway", "meridian", "bytes", "futures"]),
    ("TLS", &["rustls", "tokio_rustls", "ring", "meridian_tls", "webpki", "untrusted", "gcm_"]),
    ("runtime", &["tokio", "mio", "parking_lot", "socket2", "rustix", "libc"]),
    (
        "allocator",
        &[
            "malloc",
            "_int_",
            "calloc",
            "realloc",
            "free",
            "cfree",
            "__libc_malloc",
            "__libc_calloc",
            "__libc_realloc",
            "__libc_free",
            "unlink_chunk",
            "tcache",
            "sysmalloc",
            "__rust_",
            "__rdl_",
            "posix_memalign",
            "aligned_alloc",
            "systrim",
        ],
    ),
    ("copies", &["__mem", "mem", "_mem"]),
];
/// The file of samples.
const DATA: &str = "perf.data";
const KERNEL: &str = "kernel";
const STANDARD: &str = "std";
const REST: &str = "rest";

/// All parts, in the order of the table.
pub(super) fn parts() -> Vec<&'static str> {
    let named = PARTS.iter().map(|(part, _)| *part);
    named.chain([STANDARD, KERNEL, REST]).collect()
}

/// The program to run the load in, with its arguments: it samples `processes` until the load ends.
pub(super) fn wrapper(processes: &[u32], dir: &Path) -> Vec<String> {
    let pids: Vec<String> = processes.iter().map(u32::to_string).collect();
    let data = dir.join(DATA).display().to_string();
    ["perf", "record", "-q", "-F", RATE, "-p", &pids.join(","), "-o", &data, "--"]
        .map(str::to_owned)
        .to_vec()
}

/// The shares under the last load.
pub(super) fn read(dir: &Path) -> anyhow::Result<Profile> {
    let mut command = Command::new("perf");
    command.args(["script", "-F", "ip,sym,dso", "-i"]).arg(dir.join(DATA));
    let output = command.output().context("cannot start perf")?;
    let profile = shares(&String::from_utf8_lossy(&output.stdout));
    let error = String::from_utf8_lossy(&output.stderr);
    ensure!(!profile.is_empty(), "perf took no samples: {error}");
    Ok(profile)
}

/// Lines of an address, a function and, in brackets, the file that has it.
fn shares(script: &str) -> Profile {
    let mut counts: BTreeMap<&'static str, u64> = BTreeMap::new();
    for line in script.lines() {
        let Some((address, rest)) = line.trim().split_once(' ') else { continue };
        let Some((function, file)) = rest.rsplit_once(" (") else { continue };
        *counts.entry(part(address, function, file)).or_default() += 1;
    }
    let all = counts.values().sum::<u64>() as f64;
    counts.into_iter().map(|(part, count)| (part, count as f64 / all)).collect()
}

fn part(address: &str, function: &str, file: &str) -> &'static str {
    // The kernel has the upper half of the addresses.
    if file.starts_with("[kernel") || file.starts_with("[guest") || address.starts_with("ffff") {
        return KERNEL;
    }
    let path = function.trim_start_matches(|c: char| "<&*([".contains(c));
    let path = path.trim_start_matches("mut ").trim_start_matches("dyn ");
    let is = |prefix: &&str| path.starts_with(prefix);
    if ["core::", "alloc::", "std::", "hashbrown"].iter().any(is) {
        return STANDARD;
    }
    let found = PARTS.iter().find(|(_, prefixes)| prefixes.iter().any(is));
    found.map_or(REST, |(part, _)| part)
}

#[cfg(test)]
mod tests {
    use super::*;

    // A sample belongs to the crate of its function, the kernel's by their addresses.
    #[test]
    fn functions_belong_to_parts() {
        let of = |function| part("55d0c0de", function, "/bin/meridian)");
        assert_eq!(of("hyper::proto::h1::conn::Conn<I,B,T>::poll_read_head"), "HTTP");
        assert_eq!(of("<hyper_util::rt::tokio::TokioIo<T> as hyper::rt::io::Read>::poll"), "HTTP");
        assert_eq!(of("meridian_protocol::openai::scan::scan"), "JSON and wire");
        assert_eq!(of("meridian_routing::machine::Machine::handle"), "routing");
        assert_eq!(
            of("<meridian_gateway::request::answer::relay::Relay as Body>::poll_frame"),
            "relay"
        );
        assert_eq!(of("tokio_rustls::common::Stream<IO,C>::write_io"), "TLS");
        assert_eq!(of("tokio::runtime::task::raw::poll"), "runtime");
        assert_eq!(of("core::ptr::drop_in_place<hyper::body::Incoming>"), "std");
        assert_eq!(of("_int_malloc"), "allocator");
        assert_eq!(of("__memmove_avx_unaligned_erms"), "copies");
        assert_eq!(of("[unknown]"), "rest");
        assert_eq!(part("ffffffff81a2", "[unknown]", "[unknown])"), "kernel");
    }

    // Shares add up to one; lines of another form are left out.
    #[test]
    fn shares_add_up() {
        let script = "  ffffffff8101 tcp_sendmsg ([kernel.kallsyms])\n 55d0 malloc (/lib/libc.so)\n\
                      \n 55d1 [unknown] (/usr/sbin/nginx)\n 55d2 cfree (/lib/libc.so)\n";
        let expected = [("allocator", 0.5), ("kernel", 0.25), ("rest", 0.25)];
        assert_eq!(shares(script), Profile::from(expected));
        assert_eq!(shares(""), Profile::new());
        assert!(expected.iter().all(|(name, _)| parts().contains(name)));
    }
}
