//! One connection's sockets: reads bytes from one side, holds them as long as its machine says, and
//! writes them to the other.
//!
//! One task owns both sockets and follows the machine. It reads only as much as the machine has
//! capacity for, so TCP itself applies backpressure to a sender that is faster than the link or the
//! reader.

use std::collections::VecDeque;
use std::future::pending;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Instant;

use meridian_base::{Rng, Time};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio_util::sync::CancellationToken;

use super::routes::{Route, Shared};
use super::timer::Timer;
use super::{Pair, Side, Step};

/// The most read at once.
const SCRATCH: usize = 64 << 10;
/// An empty queue keeps at most this capacity.
const KEPT: usize = 64 << 10;

type Dial = Pin<Box<dyn Future<Output = io::Result<TcpStream>> + Send>>;

/// A side's socket, and the bytes from the other side waiting to be written to it.
#[derive(Default)]
struct End {
    stream: Option<TcpStream>,
    bytes: VecDeque<u8>,
}

struct Pipe {
    shared: Arc<Shared>,
    route: Arc<Route>,
    pair: Pair,
    near: End,
    far: End,
    dial: Option<Dial>,
    timer: Timer,
}

/// The event that woke the task.
enum Event {
    Readable(Side),
    Writable(Side),
    Dialled(io::Result<TcpStream>),
    Due,
    Stopped,
}

/// Relays one connection until it ends or the relay stops.
pub(super) async fn run(
    near: TcpStream,
    shared: Arc<Shared>,
    route: Arc<Route>,
    stop: CancellationToken,
) -> io::Result<()> {
    near.set_nodelay(true)?;
    let timer = Timer::new()?;
    let rng = Rng::new(shared.seed).fork(shared.serial());
    let pair = shared
        .with(&route, |links| Pair::new(shared.now(), links, shared.window, shared.buffer, &rng));
    let near = End { stream: Some(near), ..End::default() };
    let mut pipe = Pipe { shared, route, pair, near, far: End::default(), dial: None, timer };
    pipe.turn(stop).await
}

impl Pipe {
    async fn turn(&mut self, stop: CancellationToken) -> io::Result<()> {
        let mut changes = self.shared.changes();
        loop {
            // Before the machine reads the links, so that no change is missed in between.
            changes.mark_unchanged();
            let Some(next) = self.work().await else { return Ok(()) };
            let next = next.map(|at| self.shared.instant(at));
            let event = tokio::select! {
                () = stop.cancelled() => Event::Stopped,
                event = self.event(next) => event?,
                _ = changes.changed() => Event::Due,
            };
            match event {
                Event::Readable(side) => self.read(side),
                Event::Writable(side) => self.write(side),
                Event::Dialled(stream) => self.dialled(stream),
                Event::Due => {}
                Event::Stopped => return Ok(()),
            }
        }
    }

    /// Performs everything that is due. Returns when the next thing is due; none if the connection
    /// has ended.
    async fn work(&mut self) -> Option<Option<Time>> {
        loop {
            let now = self.shared.now();
            let pair = &mut self.pair;
            let (step, next) = self.shared.with(&self.route, |links| {
                let step = pair.advance(now, links);
                (step, pair.next(links))
            });
            match step {
                None => return Some(next),
                Some(Step::Dial) => self.dial = Some(dial(&self.route)),
                Some(Step::End(to)) => {
                    if let Some(stream) = &mut self.end(to).stream {
                        // If this fails the side is gone, which its next read or write reports.
                        let _ = stream.shutdown().await;
                    }
                }
                Some(Step::Over { reset_near, reset_far }) => {
                    self.near.close(reset_near);
                    self.far.close(reset_far);
                    return None;
                }
            }
        }
    }

    /// Waits for the first event that the machine can use.
    async fn event(&mut self, next: Option<Instant>) -> io::Result<Event> {
        let Pipe { pair, near, far, dial, timer, .. } = self;
        let reads = |side| pair.room(side) > 0;
        let writes = |side| pair.arrived(side) > 0;
        Ok(tokio::select! {
            () = near.readable(), if reads(Side::Near) => Event::Readable(Side::Near),
            () = near.writable(), if writes(Side::Near) => Event::Writable(Side::Near),
            () = far.readable(), if reads(Side::Far) => Event::Readable(Side::Far),
            () = far.writable(), if writes(Side::Far) => Event::Writable(Side::Far),
            stream = dialled(dial) => Event::Dialled(stream),
            due = timer.until(next) => due.map(|()| Event::Due)?,
        })
    }

    fn end(&mut self, side: Side) -> &mut End {
        match side {
            Side::Near => &mut self.near,
            Side::Far => &mut self.far,
        }
    }

    fn read(&mut self, side: Side) {
        let room = self.pair.room(side);
        let (from, to) = match side {
            Side::Near => (&mut self.near, &mut self.far),
            Side::Far => (&mut self.far, &mut self.near),
        };
        let read = from.read(room, &mut to.bytes);
        let now = self.shared.now();
        let pair = &mut self.pair;
        self.shared.with(&self.route, |links| match read {
            Ok(0) => pair.ended(now, side, links),
            Ok(len) => pair.read(now, side, len, links),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(_) => pair.broke(now, side, links),
        });
    }

    fn write(&mut self, side: Side) {
        let arrived = self.pair.arrived(side);
        let (written, error) = self.end(side).write(arrived);
        let now = self.shared.now();
        let pair = &mut self.pair;
        self.shared.with(&self.route, |links| {
            pair.wrote(side, written, links);
            if error.is_some_and(|error| error.kind() != io::ErrorKind::WouldBlock) {
                pair.broke(now, side, links);
            }
        });
    }

    fn dialled(&mut self, stream: io::Result<TcpStream>) {
        self.dial = None;
        let stream = stream.and_then(|stream| stream.set_nodelay(true).map(|()| stream));
        if let Err(error) = &stream {
            tracing::debug!(route = self.route.name, %error, "the target does not answer");
        }
        self.far.stream = stream.ok();
        let (now, is_connected) = (self.shared.now(), self.far.stream.is_some());
        let pair = &mut self.pair;
        self.shared.with(&self.route, |links| pair.dialled(now, is_connected, links));
    }
}

impl Drop for Pipe {
    /// However the task ends, the counts are balanced and both sides are notified.
    fn drop(&mut self) {
        let pair = &mut self.pair;
        self.shared.with(&self.route, |links| pair.close(links, true));
        self.near.close(true);
        self.far.close(true);
    }
}

impl End {
    async fn readable(&self) {
        match &self.stream {
            // The following read reports any error.
            Some(stream) => drop(stream.readable().await),
            None => pending().await,
        }
    }

    async fn writable(&self) {
        match &self.stream {
            Some(stream) => drop(stream.writable().await),
            None => pending().await,
        }
    }

    fn read(&self, room: usize, into: &mut VecDeque<u8>) -> io::Result<usize> {
        let Some(stream) = &self.stream else { return Err(io::ErrorKind::WouldBlock.into()) };
        let mut scratch = [0; SCRATCH];
        let len = stream.try_read(&mut scratch[..room.min(SCRATCH)])?;
        into.extend(&scratch[..len]);
        Ok(len)
    }

    /// Writes at most `arrived` bytes; returns how many, and the error that stopped it.
    fn write(&mut self, arrived: usize) -> (usize, Option<io::Error>) {
        let Some(stream) = &self.stream else { return (0, None) };
        let mut written = 0;
        while written < arrived {
            let (bytes, _) = self.bytes.as_slices();
            match stream.try_write(&bytes[..bytes.len().min(arrived - written)]) {
                Ok(len) => {
                    written += len;
                    self.bytes.drain(..len);
                }
                Err(error) => return (written, Some(error)),
            }
        }
        if self.bytes.is_empty() {
            self.bytes.shrink_to(KEPT);
        }
        (written, None)
    }

    fn close(&mut self, is_reset: bool) {
        if let Some(stream) = self.stream.take()
            && is_reset
        {
            // Closing it then sends a reset. It fails only if the connection is already gone.
            let _ = stream.set_zero_linger();
        }
    }
}

fn dial(route: &Route) -> Dial {
    let target = route.target();
    Box::pin(async move {
        let target = target.ok_or_else(|| io::Error::from(io::ErrorKind::ConnectionRefused))?;
        TcpStream::connect(target).await
    })
}

async fn dialled(dial: &mut Option<Dial>) -> io::Result<TcpStream> {
    match dial {
        Some(dial) => dial.await,
        None => pending().await,
    }
}
