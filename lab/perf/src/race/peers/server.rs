//! Programs of this machine: nginx, HAProxy and Meridian.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, ensure};
use meridian_fleet::free_port;

use super::super::http::listening;
use super::super::process::Process;
use super::super::systems::{Program, Tls};
use super::{Around, START, Started};

const NGINX: &str = include_str!("../../../peers/nginx.conf");
const NGINX_CLIENT_TLS: &str = include_str!("../../../peers/nginx-client-tls.conf");
const NGINX_REPLICA_TLS: &str = include_str!("../../../peers/nginx-https.conf");
const HAPROXY: &str = include_str!("../../../peers/haproxy.cfg");
const HAPROXY_CLIENT_TLS: &str = "ssl crt @PEM@ alpn http/1.1";
/// As the others, it verifies the replica's certificate.
const HAPROXY_REPLICA_TLS: &str =
    "ssl verify required ca-file @CERTIFICATE@ verifyhost localhost sni str(localhost)";
const MERIDIAN: &str = include_str!("../../../peers/meridian.yaml");
/// Added to the file of a Meridian that reaches replicas over https.
const MERIDIAN_REPLICA_TLS: &str = include_str!("../../../peers/meridian-https.yaml");
/// Added to the file of a Meridian whose clients use https.
const MERIDIAN_CLIENT_TLS: &str = include_str!("../../../peers/meridian-tls.yaml");
/// Added to the file of a Meridian that records all requests.
const MERIDIAN_RECORDED: &str = include_str!("../../../peers/meridian-recorded.yaml");
const MERIDIAN_POOLS: &str = include_str!("../../../peers/meridian-pools.yaml");

pub(super) fn nginx(around: &Around<'_>) -> anyhow::Result<Started> {
    let program = find(["/usr/sbin/nginx", "nginx"], "-v", "nginx-light")?;
    let port = free_port()?;
    let tls = around.spec.tls;
    let (ssl, client) = if tls == Tls::Both { ("ssl", NGINX_CLIENT_TLS) } else { ("", "") };
    let (scheme, replica) =
        if tls == Tls::None { ("http", "") } else { ("https", NGINX_REPLICA_TLS) };
    let parts = [
        ("@PORT@", &*port.to_string()),
        ("@SSL@", ssl),
        ("@SCHEME@", scheme),
        ("@CLIENT_TLS@", client.trim_end()),
        ("@REPLICA_TLS@", replica.trim_end()),
    ];
    let path = around.write("nginx.conf", &around.fill(NGINX, &parts))?;
    let mut command = around.command(program);
    command.arg("-c").arg(&path).arg("-e").arg(path.with_file_name("nginx.error.log"));
    if !around.binaries.wrapper.is_empty() {
        // A wrapper is asked for the counts of the process that it started, not of nginx's children.
        command.args(["-g", "master_process off;"]);
    }
    let process = Process::start(command, around.log())?;
    Ok((version(program, "-v")?, format!("127.0.0.1:{port}"), process))
}

pub(super) fn haproxy(around: &Around<'_>) -> anyhow::Result<Started> {
    let program = find(["/usr/sbin/haproxy", "haproxy"], "-v", "haproxy")?;
    let port = free_port()?;
    let tls = around.spec.tls;
    let client = if tls == Tls::Both { HAPROXY_CLIENT_TLS } else { "" };
    let replica = if tls == Tls::None { "" } else { HAPROXY_REPLICA_TLS };
    let parts =
        [("@PORT@", &*port.to_string()), ("@CLIENT_TLS@", client), ("@REPLICA_TLS@", replica)];
    let path = around.write("haproxy.cfg", &around.fill(HAPROXY, &parts))?;
    let mut command = around.command(program);
    command.arg("-db").arg("-f").arg(path);
    let process = Process::start(command, around.log())?;
    let version = version(program, "-v")?;
    let version = version.split(' ').take(3).collect::<Vec<_>>().join(" ");
    Ok((version, format!("127.0.0.1:{port}"), process))
}

pub(super) fn gateway(meridian: &Path, around: &Around<'_>) -> anyhow::Result<Started> {
    let (transfer, config) = match around.spec.program {
        Program::Pools(transfer) => (transfer, MERIDIAN_POOLS.to_owned()),
        Program::Recorded => ("", format!("{MERIDIAN}{MERIDIAN_RECORDED}")),
        _ => ("", MERIDIAN.to_owned()),
    };
    let config = match around.spec.tls {
        Tls::None => config,
        Tls::Replica => format!("{config}{MERIDIAN_REPLICA_TLS}"),
        Tls::Both => format!("{config}{MERIDIAN_REPLICA_TLS}{MERIDIAN_CLIENT_TLS}"),
    };
    let scheme = if around.spec.tls == Tls::None { "http" } else { "https" };
    let config = around.fill(&config, &[("@TRANSFER@", transfer), ("@SCHEME@", scheme)]);
    let path = around.write("meridian.yaml", &config)?;
    let mut command = around.command(meridian);
    command.arg("gateway").arg("-c").arg(path);
    let mut process = Process::start(command, around.log())?;
    let address = process.wait(START, listening)?;
    Ok((version(&meridian.display().to_string(), "--version")?, address, process))
}

/// The program under the first of these names that starts.
fn find(names: [&'static str; 2], flag: &str, package: &str) -> anyhow::Result<&'static str> {
    let program = names.into_iter().find(|name| version(name, flag).is_ok());
    program
        .with_context(|| format!("{} is missing: on Debian, `apt-get install {package}`", names[1]))
}

/// The first line of a program's version output, from stdout or stderr.
fn version(program: &str, flag: &str) -> anyhow::Result<String> {
    let out = Command::new(program).arg(flag).output();
    let out = out.with_context(|| format!("cannot start {program}"))?;
    let text = [out.stdout, out.stderr].concat();
    let text = String::from_utf8_lossy(&text);
    ensure!(out.status.success(), "{program} {flag} failed: {text}");
    Ok(text.lines().next().unwrap_or_default().trim().to_owned())
}
