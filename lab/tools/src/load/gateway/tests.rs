use super::*;

fn status(done: u64, cancelled: u64) -> Status {
    Status {
        accepted: done + cancelled,
        done,
        client_error: 0,
        rejected: 0,
        failed: 0,
        cancelled,
        in_flight: 0,
    }
}

fn report(ok: u64, aborted: u64) -> Report {
    let counts = Counts { sent: ok + aborted, ok, aborted, ..Counts::default() };
    Report { counts, ..Report::blank() }
}

fn agrees(report: &Report, after: Status) -> bool {
    compare(&status(100, 10), &after, report).agrees()
}

// Counts from before the run are subtracted; without clients that disconnect the counts must be
// equal.
#[test]
fn counts_are_of_this_run() {
    assert!(agrees(&report(5, 0), status(105, 10)));
    assert!(!agrees(&report(5, 0), status(104, 10)));
    assert!(!agrees(&report(5, 0), status(106, 10)));
    assert!(!agrees(&report(5, 0), status(105, 11)));
}

// A disconnected client's request may be counted as cancelled, as done, or not at all, but only
// once.
#[test]
fn a_client_that_hung_up() {
    assert!(agrees(&report(5, 2), status(105, 12)));
    assert!(agrees(&report(5, 2), status(107, 10)));
    assert!(agrees(&report(5, 2), status(105, 10)));
    assert!(!agrees(&report(5, 2), status(107, 12)));
    assert!(!agrees(&report(5, 2), status(104, 12)));
}
