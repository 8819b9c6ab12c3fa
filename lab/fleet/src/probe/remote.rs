//! The caller's side: orders to one responder.

use std::net::{IpAddr, SocketAddr, TcpStream};
use std::time::Duration;

use super::order::{Order, What};
use super::words::{LINE, Role, Token, introduce, read_line, write_line};
use super::{MOST_STREAMS, MOST_TIME, PATIENCE};
use crate::{Error, Result};

/// A measurement of goodput.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sent {
    /// Bytes a second that arrived.
    pub goodput: f64,
    /// The largest [`super::busy::Shares::of_stream`].
    pub busy: f64,
}

/// A measurement of round trips.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rtt {
    /// The shortest.
    pub least: Duration,
    /// The median.
    pub median: Duration,
}

/// A responder on another server. Each order is a connection of its own.
pub struct Remote {
    address: SocketAddr,
    token: Token,
}

impl Remote {
    /// Checks that a responder is there and knows the token.
    ///
    /// # Errors
    ///
    /// If it is not, or another program listens there.
    pub fn new(address: SocketAddr, token: &Token) -> Result<Remote> {
        let remote = Remote { address, token: token.clone() };
        remote.open().map(|_| remote)
    }

    /// Its address.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Orders it to send to another responder, from one of its own addresses.
    ///
    /// # Errors
    ///
    /// If it cannot reach the other one, or fails otherwise.
    pub fn send(&self, to: SocketAddr, from: IpAddr, streams: u32, time: Duration) -> Result<Sent> {
        let what =
            What::Send { streams: streams.clamp(1, MOST_STREAMS), time: time.min(MOST_TIME) };
        let answer = self.order(&Order { to, from, what }, time + 6 * PATIENCE)?;
        let mut words = answer.strip_prefix("sent ").unwrap_or_default().split(' ');
        let mut number = || words.next().and_then(|word| word.parse::<f64>().ok());
        match (number(), number()) {
            (Some(goodput), Some(busy)) => Ok(Sent { goodput, busy }),
            _ => Err(self.failed(&answer)),
        }
    }

    /// Orders it to exchange small messages with another responder.
    ///
    /// # Errors
    ///
    /// As for [`Self::send`].
    pub fn trips(&self, to: SocketAddr, from: IpAddr, count: u32) -> Result<Rtt> {
        let limit = 12 * PATIENCE;
        let answer = self.order(&Order { to, from, what: What::Trips(count) }, limit)?;
        let mut words = answer.strip_prefix("trips ").unwrap_or_default().split(' ');
        let mut time = || Some(Duration::from_nanos(words.next()?.parse().ok()?));
        match (time(), time()) {
            (Some(least), Some(median)) => Ok(Rtt { least, median }),
            _ => Err(self.failed(&answer)),
        }
    }

    fn order(&self, order: &Order, limit: Duration) -> Result<String> {
        let mut stream = self.open()?;
        let lost = |error: std::io::Error| {
            self.error(format!("the connection was lost: {error}"), "look whether it still runs")
        };
        write_line(&mut stream, &order.line()).map_err(lost)?;
        read_line(&mut stream, LINE, limit).map_err(lost)
    }

    fn open(&self) -> Result<TcpStream> {
        let start = "start `meridian plan probe` there, and open its port";
        let unreached = |error: std::io::Error| self.error(error.to_string(), start);
        let mut stream = TcpStream::connect_timeout(&self.address, PATIENCE).map_err(unreached)?;
        let introduced = introduce(&mut stream, &self.token, Role::Order);
        let answer = introduced.and_then(|()| read_line(&mut stream, LINE, PATIENCE));
        match answer {
            Ok(line) if line == "ready" => Ok(stream),
            Ok(line) => Err(self.failed(&line)),
            Err(error) if error.kind() != std::io::ErrorKind::UnexpectedEof => {
                Err(unreached(error))
            }
            Err(_) => {
                let what = "it closed the connection".to_owned();
                let remedy = "give it and plan verify the same MERIDIAN_PROBE_TOKEN, or wait until \
                              it serves fewer connections";
                Err(self.error(what, remedy))
            }
        }
    }

    fn failed(&self, answer: &str) -> Error {
        let what = answer.strip_prefix("failed ").unwrap_or(answer);
        // It may be printed to a terminal.
        let what = what.chars().filter(|c| !c.is_control()).collect();
        self.error(what, "look at the addresses and the routes between the servers")
    }

    fn error(&self, what: String, remedy: &'static str) -> Error {
        Error::Probe { address: self.address.to_string(), what, remedy }
    }
}
