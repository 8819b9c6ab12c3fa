//! An order to a responder: to send to another one, or to exchange small messages with it.

use std::io::{self, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{AddressFamily, SocketType, bind, connect, socket};

use super::words::{Role, Token, introduce};
use super::{MOST_STREAMS, MOST_TIME, MOST_TRIPS, PATIENCE, stream};

/// Bytes of a small message.
pub(super) const MESSAGE: usize = 64;

/// An order.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Order {
    /// The other responder.
    pub(super) to: SocketAddr,
    /// The address to send from: that of the card to measure.
    pub(super) from: IpAddr,
    pub(super) what: What,
}

/// What to measure.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum What {
    /// Goodput over some streams.
    Send { streams: u32, time: Duration },
    /// The time of round trips.
    Trips(u32),
}

impl Order {
    pub(super) fn line(&self) -> String {
        let Order { to, from, what } = self;
        match what {
            What::Send { streams, time } => {
                format!("send {to} {from} {streams} {}", time.as_millis())
            }
            What::Trips(count) => format!("trips {to} {from} {count}"),
        }
    }

    /// Reads an order; `None` if it is not one, or beyond a limit.
    pub(super) fn read(line: &str) -> Option<Order> {
        let words: Vec<&str> = line.split(' ').collect();
        let what = match words[..] {
            ["send", _, _, streams, millis] => {
                let time = Duration::from_millis(millis.parse().ok()?);
                let streams = streams.parse().ok()?;
                let fits = (1..=MOST_STREAMS).contains(&streams) && time <= MOST_TIME;
                fits.then_some(What::Send { streams, time })?
            }
            ["trips", _, _, count] => {
                let count = count.parse().ok()?;
                (1..=MOST_TRIPS).contains(&count).then_some(What::Trips(count))?
            }
            _ => return None,
        };
        Some(Order { to: words[1].parse().ok()?, from: words[2].parse().ok()?, what })
    }

    /// Carries it out; the line of the answer.
    pub(super) fn carry_out(&self, token: &Token) -> io::Result<String> {
        match self.what {
            What::Send { streams, time } => self.send(token, streams, time),
            What::Trips(count) => self.trips(token, count),
        }
    }

    fn send(&self, token: &Token, streams: u32, time: Duration) -> io::Result<String> {
        let open: io::Result<Vec<TcpStream>> =
            (0..streams).map(|_| self.open(token, Role::Data)).collect();
        let ends: Vec<_> = open?
            .into_iter()
            .map(|mut one| std::thread::spawn(move || stream::send(&mut one, time)))
            .collect();
        let (mut reports, mut busy) = (Vec::new(), 0.0_f64);
        for end in ends {
            let panicked = |_| io::Error::other("a stream's thread panicked");
            let (report, own) = end.join().map_err(panicked)??;
            busy = busy.max(own.of_stream(report.busy));
            reports.push(report);
        }
        let short = || io::Error::other("too little arrived in the time; measure for longer");
        let goodput = stream::goodput(&reports).ok_or_else(short)?;
        Ok(format!("sent {goodput:.0} {busy:.4}"))
    }

    fn trips(&self, token: &Token, count: u32) -> io::Result<String> {
        let mut stream = self.open(token, Role::Echo)?;
        stream.set_nodelay(true)?;
        let mut message = [0; MESSAGE];
        let mut times = Vec::with_capacity(count as usize);
        let begin = Instant::now();
        for _ in 0..count {
            // On a link that is this slow, a few are enough.
            if !times.is_empty() && begin.elapsed() > PATIENCE {
                break;
            }
            let start = Instant::now();
            stream.write_all(&message)?;
            stream.read_exact(&mut message)?;
            times.push(start.elapsed());
        }
        times.sort_unstable();
        let median = times[times.len() / 2].as_nanos();
        Ok(format!("trips {} {median}", times[0].as_nanos()))
    }

    /// Connects from the card's own address, and says what for.
    fn open(&self, token: &Token, role: Role) -> io::Result<TcpStream> {
        let family = if self.to.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
        let named =
            |what: &str, error: io::Error| io::Error::new(error.kind(), format!("{what}: {error}"));
        let socket = socket(family, SocketType::STREAM, None)?;
        bind(&socket, &SocketAddr::new(self.from, 0))
            .map_err(|error| named(&format!("sending from {}", self.from), error.into()))?;
        // On Linux this limits `connect` as well.
        set_socket_timeout(&socket, Timeout::Send, Some(PATIENCE))?;
        connect(&socket, &self.to)
            .map_err(|error| named(&format!("connecting to {}", self.to), timed_out(error)))?;
        let mut stream = TcpStream::from(socket);
        stream.set_read_timeout(Some(PATIENCE))?;
        introduce(&mut stream, token, role)
            .map_err(|error| named(&format!("the responder at {}", self.to), error))?;
        Ok(stream)
    }
}

/// Answers small messages with themselves, up to the most of an order.
pub(super) fn echo(mut stream: TcpStream) -> io::Result<()> {
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    let mut message = [0; MESSAGE];
    for _ in 0..MOST_TRIPS {
        match stream.read_exact(&mut message) {
            Ok(()) => stream.write_all(&message)?,
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => break,
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// A timeout of `connect` has another name on Linux.
fn timed_out(error: rustix::io::Errno) -> io::Error {
    if error == rustix::io::Errno::INPROGRESS {
        return io::Error::new(io::ErrorKind::TimedOut, "no answer");
    }
    error.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    // Orders read as they are written; those beyond a limit are none.
    #[test]
    fn orders_have_limits() {
        for what in [
            What::Send { streams: 4, time: Duration::from_millis(1500) },
            What::Send { streams: MOST_STREAMS, time: MOST_TIME },
            What::Trips(MOST_TRIPS),
        ] {
            let to = "[fd00::1]:7000".parse().unwrap();
            let order = Order { to, from: "fd00::2".parse().unwrap(), what };
            assert_eq!(Order::read(&order.line()), Some(order));
        }
        for line in [
            "",
            "send",
            "send 10.0.0.1:7 10.0.0.2 0 100",
            "send 10.0.0.1:7 10.0.0.2 17 100",
            "send 10.0.0.1:7 10.0.0.2 4 60001",
            "send 10.0.0.1:7 10.0.0.2 4 -1",
            "send host:7 10.0.0.2 4 100",
            "send 10.0.0.1:7 10.0.0.2 4 100 5",
            "trips 10.0.0.1:7 10.0.0.2 1001",
            "trips 10.0.0.1 10.0.0.2 5",
        ] {
            assert_eq!(Order::read(line), None, "{line}");
        }
    }
}
