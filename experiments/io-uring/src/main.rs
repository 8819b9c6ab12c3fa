//! What `io_uring` would save a proxy.
//!
//! One relay of bytes, on three runtimes: tokio's epoll as in the gateway, monoio's epoll, and monoio's
//! io_uring. Each client connection has its own connection to the server, and nothing is parsed, so what
//! differs is the runtime and its system calls only.
//!
//! `io-uring-relay race MERIDIAN` starts the relays in front of `MERIDIAN bench mock` and measures
//! them in turn with `wrk`. docs/decisions/no-io-uring.md has the figures and what follows.

mod on_monoio;
mod on_tokio;
mod race;

use std::net::SocketAddr;

use anyhow::{Context as _, bail};

const USAGE: &str = "usage: io-uring-relay race MERIDIAN [ROUNDS]\n       io-uring-relay \
                     tokio|epoll|io_uring LISTEN SERVER";

fn main() -> anyhow::Result<()> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    match args[..] {
        ["race", meridian] => race::run(meridian, 5),
        ["race", meridian, rounds] => {
            race::run(meridian, rounds.parse().context("ROUNDS is a number")?)
        }
        [runtime, listen, server] => relay(runtime, listen.parse()?, server.parse()?),
        _ => bail!("{USAGE}"),
    }
}

/// Relays until it is killed.
fn relay(runtime: &str, listen: SocketAddr, server: SocketAddr) -> anyhow::Result<()> {
    match runtime {
        "tokio" => on_tokio::run(listen, server),
        "epoll" => on_monoio::on_epoll(listen, server),
        "io_uring" => on_monoio::on_io_uring(listen, server),
        _ => bail!("unknown runtime {runtime}\n{USAGE}"),
    }
}
