//! Both ends of a stream of data.
//!
//! The receiver counts the bytes of each step of its own clock, so that streams which start apart
//! are added up in time, and stops after the asked time. What is then still on its way is thrown
//! away: a slow link could hold megabytes.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use super::busy::{Busy, Shares};
use super::words::{LINE, REPORT, read_line, write_line};
use super::{MOST_BYTES, MOST_TIME, PATIENCE, STEP};

/// Bytes of a write or a read.
const CHUNK: usize = 256 * 1024;
/// Steps since a receiver's start at most: seven years.
const MOST_STEPS: u64 = u32::MAX as u64;

/// What the receiver of a stream counted.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Report {
    /// The first step, since the receiver's start.
    pub(super) first: u64,
    /// The receiver's.
    pub(super) busy: Shares,
    /// Bytes of each step from the first one on.
    pub(super) steps: Vec<u64>,
}

impl Report {
    fn line(&self) -> String {
        let steps: Vec<String> = self.steps.iter().map(u64::to_string).collect();
        let Shares { thread, interrupts } = self.busy;
        format!("got {} {thread:.4} {interrupts:.4} {}", self.first, steps.join(","))
    }

    fn read(line: &str) -> Option<Report> {
        let step = |text: &str| text.parse().ok().filter(|bytes| *bytes <= MOST_BYTES);
        let mut words = line.strip_prefix("got ")?.split(' ');
        let first = words.next()?.parse().ok().filter(|first| *first < MOST_STEPS)?;
        let mut share =
            || words.next()?.parse::<f64>().ok().filter(|one| (0.0..=1.0).contains(one));
        let busy = Shares { thread: share()?, interrupts: share()? };
        let steps: Option<Vec<u64>> = words.next()?.split(',').map(step).collect();
        Some(Report { first, busy, steps: steps? })
    }
}

/// Takes a stream of data and reports what arrived.
pub(super) fn receive(mut stream: TcpStream, epoch: Instant) -> io::Result<()> {
    let line = read_line(&mut stream, LINE, PATIENCE)?;
    let wrong = || io::Error::new(io::ErrorKind::InvalidData, "the time is missing");
    let millis = line.strip_prefix("for ").and_then(|text| text.parse().ok()).ok_or_else(wrong)?;
    let time = Duration::from_millis(millis).min(MOST_TIME);
    let mut buffer = vec![0; CHUNK];
    let mut arrived = Arrived::new(epoch);
    stream.set_read_timeout(Some(PATIENCE))?;
    let mut end: Option<Instant> = None;
    let mut busy = Busy::start();
    loop {
        let count = stream.read(&mut buffer)?;
        let now = Instant::now();
        let end = *end.get_or_insert_with(|| {
            busy = Busy::start();
            now + time
        });
        arrived.add(now, count as u64);
        if count == 0 || now >= end || arrived.total > MOST_BYTES {
            break;
        }
    }
    write_line(&mut stream, &arrived.report(busy.shares()).line())?;
    // The sender closes when it has the report.
    let end = Instant::now() + PATIENCE;
    while stream.read(&mut buffer)? > 0 && Instant::now() < end {}
    Ok(())
}

/// Bytes by step.
struct Arrived {
    epoch: Instant,
    first: Option<u64>,
    steps: Vec<u64>,
    total: u64,
}

impl Arrived {
    fn new(epoch: Instant) -> Arrived {
        Arrived { epoch, first: None, steps: Vec::new(), total: 0 }
    }

    fn add(&mut self, now: Instant, bytes: u64) {
        let step =
            now.saturating_duration_since(self.epoch).as_millis() as u64 / STEP.as_millis() as u64;
        let first = *self.first.get_or_insert(step);
        // The time is bounded, and with it the number of steps.
        let at = (step - first) as usize;
        if at >= self.steps.len() {
            self.steps.resize(at + 1, 0);
        }
        self.steps[at] += bytes;
        self.total += bytes;
    }

    fn report(self, busy: Shares) -> Report {
        Report { first: self.first.unwrap_or(0), busy, steps: self.steps }
    }
}

/// Sends zeros for some time; the receiver's report and this side's shares.
pub(super) fn send(stream: &mut TcpStream, time: Duration) -> io::Result<(Report, Shares)> {
    write_line(stream, &format!("for {}", time.as_millis()))?;
    let zeros = vec![0; CHUNK];
    let busy = Busy::start();
    // A little longer than the receiver listens, so that its last steps are full.
    let end = Instant::now() + time + 4 * STEP;
    while Instant::now() < end {
        stream.write_all(&zeros)?;
    }
    let shares = busy.shares();
    let line = read_line(stream, REPORT, 2 * PATIENCE)?;
    // Throws away what was not sent yet.
    rustix::net::sockopt::set_socket_linger(&*stream, Some(Duration::ZERO))?;
    let wrong = || io::Error::new(io::ErrorKind::InvalidData, "the report can't be read");
    Ok((Report::read(&line).ok_or_else(wrong)?, shares))
}

/// Bytes a second of all streams together: over the steps that all of them saw, without the first
/// quarter, in which TCP finds the rate, and the last, which is not a whole one. `None` if too few
/// are left.
pub(super) fn goodput(reports: &[Report]) -> Option<f64> {
    let last = |one: &Report| one.first + one.steps.len() as u64;
    let start = reports.iter().map(|one| one.first).max()?;
    let end = reports.iter().map(last).min()?.saturating_sub(1);
    let start = start + end.saturating_sub(start).div_ceil(4);
    let count = end.saturating_sub(start);
    if count < 3 {
        return None;
    }
    let within = |one: &Report| {
        let skip = (start - one.first) as usize;
        one.steps.iter().skip(skip).take(count as usize).sum::<u64>()
    };
    let bytes: u64 = reports.iter().map(within).sum();
    Some(bytes as f64 / (count as f64 * STEP.as_secs_f64()))
}

#[cfg(test)]
mod tests {
    use super::*;

    // Streams are added where they overlap, without the first quarter and the last step.
    #[test]
    fn streams_are_added_in_time() {
        let report =
            |first, steps: &[u64]| Report { first, busy: Shares::default(), steps: steps.to_vec() };
        let one = report(10, &[9, 9, 10, 10, 10, 10, 10, 10, 3]);
        let goodput = |reports: &[Report]| goodput(reports).map(f64::round);
        assert_eq!(goodput(std::slice::from_ref(&one)), Some(200.0));
        let other = report(12, &[0, 0, 20, 20, 20, 20, 7]);
        assert_eq!(goodput(&[one.clone(), other]), Some(600.0));
        assert_eq!((goodput(&[report(1, &[5, 5, 5])]), goodput(&[])), (None, None));
        assert_eq!(goodput(&[one, report(500, &[1; 20])]), None, "they never met");
    }

    // A report reads as it is written; another line is none.
    #[test]
    fn reports_are_read() {
        let busy = Shares { thread: 0.25, interrupts: 0.5 };
        let one = Report { first: 7, busy, steps: vec![1, 0, 3] };
        assert_eq!(Report::read(&one.line()), Some(one));
        for line in
            ["", "got", "got 1 0.1 2", "got x 0.1 0.1 3", "got 1 0.1 0.1 3,x", "got 1 nan 0 3"]
        {
            assert_eq!(Report::read(line), None, "{line}");
        }
    }

    // Bytes are counted in the step in which they arrive.
    #[test]
    fn bytes_by_step() {
        let epoch = Instant::now();
        let mut arrived = Arrived::new(epoch);
        for (step, bytes) in [(20, 5), (20, 6), (22, 1)] {
            arrived.add(epoch + step * STEP, bytes);
        }
        let expected = Report { first: 20, busy: Shares::default(), steps: vec![11, 0, 1] };
        assert_eq!(arrived.report(Shares::default()), expected);
    }
}
