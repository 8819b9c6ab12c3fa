use super::*;

/// A gateway that gets 5 requests a second, of which every tenth fails, for `seconds`.
fn after(seconds: u64) -> History {
    let mut history = History::start(0.0, 1_000);
    for second in 1..=seconds {
        let totals = Totals {
            requests: 5 * second,
            errors: second / 2,
            prompt_tokens: 100 * second,
            cached_tokens: 60 * second,
            output_tokens: 40 * second,
        };
        let sample = Sample {
            totals,
            held: (second % 7) as u32,
            kv_used: Some(0.5),
            ttft_ms: vec![100.0; 5],
            sums: Sums::of(5),
        };
        history.add(second as f64, 1_000 + second, &sample);
    }
    history
}

// Each interval has the rates and quantiles of its own 10 s, and the last one is not complete.
#[test]
fn an_interval_has_its_own_figures() {
    let points = after(25).points(0);
    assert_eq!(points.iter().map(|p| p.at_s).collect::<Vec<_>>(), [1000, 1010, 1020]);
    assert_eq!(points.iter().map(|p| p.seconds).collect::<Vec<_>>(), [10.0, 10.0, 5.0]);
    for point in &points {
        assert_eq!((point.requests_per_s, point.tokens_per_s), (5.0, 40.0));
        assert!(point.errors_per_s > 0.3 && point.errors_per_s < 0.7, "{point:?}");
        assert_eq!((point.hit_ratio, point.kv_used), (Some(0.6), Some(0.5)));
        assert!((point.ttft_p99_ms.unwrap() - 100.0).abs() < 2.5, "{point:?}");
    }
    assert_eq!(points[0].held, 6);
}

// An hour is kept and no more; the points after a time are those that a reader lacks.
#[test]
fn an_hour_is_kept() {
    let history = after(2 * 3600);
    let all = history.points(0);
    assert_eq!((all.len(), all[0].at_s), (KEPT, 1_000 + 3600));
    assert_eq!(history.points(1_000 + 7180).len(), 2);
    assert_eq!(history.current(), 1_000 + 7200);
    let saved = history.saved();
    assert_eq!((saved.decided, saved.seconds), (5 * 3600, 3600.0));
}

// The recent figures are those of the last 10 to 20 s, also right after an interval has ended.
#[test]
fn recent_figures_are_never_empty() {
    for seconds in [1, 9, 10, 11, 20, 29] {
        let recent = after(seconds).recent();
        assert_eq!(recent.requests_per_s, if seconds == 10 { 5.0 } else { recent.requests_per_s });
        assert!((recent.requests_per_s - 5.0).abs() < 1e-5, "{seconds}: {recent:?}");
        assert!(recent.seconds <= 20.0 && recent.ttft_p50_ms.is_some(), "{seconds}: {recent:?}");
    }
}

// The memory of an hour is bounded: less than 64 KiB.
#[test]
fn memory_is_bounded() {
    let bytes = KEPT * size_of::<Kept>() + size_of::<History>();
    assert!(bytes < 64 << 10, "{bytes} bytes");
}
