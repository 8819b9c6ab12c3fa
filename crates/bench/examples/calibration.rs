use meridian_bench::calibration::rows;
fn main() {
    let every = std::env::args().nth(1).map_or(1, |a| a.parse().expect("a number"));
    for r in rows(every) {
        println!("{:60} {:30} {:20} n={:4} ours {:8.3} theirs {:8.3} err {:6.1}% p90 {:6.1}% met {:?}", r.check, r.part, r.measure, r.count, r.ours.unwrap_or(f64::NAN), r.published.unwrap_or(f64::NAN), 100.0*r.error, 100.0*r.p90.unwrap_or(f64::NAN), r.met());
    }
}
