use crate::dist::Dist;
use crate::plot::*;

fn dist(scale: f64) -> Dist {
    Dist::of((1..=100).map(|i| f64::from(i) * scale).collect()).unwrap()
}

fn point(x: f64, mean: f64) -> Point {
    Point { x, mean, low: mean * 0.9, high: mean * 1.1 }
}

/// Every kind of plot, each over small data; names contain characters that XML must escape.
fn every_kind() -> Vec<String> {
    let dists =
        vec![("a < b & \"c\"".to_owned(), dist(1.0)), ("round_robin".to_owned(), dist(7.0))];
    let bar = vec![("one".to_owned(), point(0.0, 3.0)), ("two".to_owned(), point(0.0, 0.0))];
    let line = vec![("one".to_owned(), vec![point(3.0, 1.0), point(6.0, 2.0)])];
    let plots = [
        bars("bars", "requests/s", &bar),
        boxes("boxes", "TTFT, ms", &dists, true),
        boxes("boxes", "TTFT, ms", &dists, false),
        cdf("cdf", "TTFT, ms", &dists, true),
        lines("lines", ["replicas", "requests/s"], &line, false),
        points("points", ["TTFT, ms", "E2E, ms"], &line, [false, true]),
        timeline("timeline", "KV used", &line),
        heatmap("heatmap", "shared", &[vec![0.0, 0.5], vec![1.0, 0.25]]),
        stack(
            &[bars("one", "ms", &bar), lines("two", ["x", "y"], &line, true)].map(Result::unwrap),
        ),
        // Empty data is not an error.
        bars("empty", "requests/s", &[]),
        boxes("empty", "ms", &[], true),
        cdf("empty", "ms", &[], true),
        points("empty", ["TTFT, ms", "E2E, ms"], &[], [true; 2]),
        timeline("empty", "KV used", &[]),
        heatmap("empty", "shared", &[]),
    ];
    plots.into_iter().map(|plot| plot.expect("plots of small data are drawn")).collect()
}

/// Checks that tags are closed in order, and returns how many there are. plotters writes one tag a
/// line, text between them.
fn tags(svg: &str) -> usize {
    let mut open = Vec::new();
    let mut count = 0;
    for part in svg.split('<').skip(1) {
        let (tag, rest) = part.split_once('>').expect("a tag ends");
        assert!(!rest.contains('>'), "unescaped text: {rest}");
        assert_eq!(tag.matches('"').count() % 2, 0, "unbalanced quotes: {tag}");
        let name = tag.trim_start_matches('/').split([' ', '/', '\n']).next().unwrap();
        count += 1;
        if tag.starts_with('/') {
            assert_eq!(open.pop(), Some(name), "closed out of order");
        } else if !tag.ends_with('/') && !tag.starts_with('?') {
            open.push(name);
        }
    }
    assert_eq!(open, Vec::<&str>::new(), "left open");
    count
}

// Every kind is well-formed SVG with some contents, even for empty data.
#[test]
fn every_kind_is_well_formed() {
    for svg in every_kind() {
        assert!(svg.starts_with("<svg ") && svg.trim_end().ends_with("</svg>"), "{svg}");
        assert!(!svg.contains("NaN") && !svg.contains("inf"), "{svg}");
        assert!(tags(&svg) > 3, "{svg}");
    }
}

// The same data gives the same bytes.
#[test]
fn plots_are_the_same_every_time() {
    assert_eq!(every_kind(), every_kind());
}

// File names contain no character that a shell or a URL would misinterpret.
#[test]
fn file_names_are_plain() {
    let figure = Figure::new(&["ttft_ms", "Mixed Tree", "3/2/3"], String::new(), String::new());
    assert_eq!(figure.name, "ttft-ms-mixed-tree-3-2-3");
}
