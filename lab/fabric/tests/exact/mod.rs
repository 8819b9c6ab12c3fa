//! Max-min fairness by its definition, in fractions: everything is solved from scratch, without
//! rounding.

use std::cmp::Ordering;

/// A flow as the solver sees it.
#[derive(Clone, Debug)]
pub(crate) struct Given {
    pub(crate) ports: Vec<u32>,
    pub(crate) priority: (u8, u64),
    pub(crate) weight: i64,
    pub(crate) cap: Option<i64>,
}

/// A fraction in lowest terms, its denominator above 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Fraction(i128, i128);

impl Fraction {
    fn new(over: i128, under: i128) -> Fraction {
        fn gcd(a: i128, b: i128) -> i128 {
            if b == 0 { a.abs() } else { gcd(b, a % b) }
        }
        let by = gcd(over, under).max(1);
        Fraction(over / by, under / by)
    }

    fn whole(n: i64) -> Fraction {
        Fraction(i128::from(n), 1)
    }

    fn minus(self, other: Fraction) -> Fraction {
        Fraction::new(self.0 * other.1 - other.0 * self.1, self.1 * other.1)
    }

    fn times(self, n: i64) -> Fraction {
        Fraction::new(self.0 * i128::from(n), self.1)
    }

    fn over(self, n: i64) -> Fraction {
        Fraction::new(self.0, self.1 * i128::from(n))
    }

    fn less(self, other: Fraction) -> bool {
        (self.0 * other.1).cmp(&(other.0 * self.1)) == Ordering::Less
    }
}

/// The rate of each flow: priority by priority, all shares within one rise together until a port or
/// a cap stops some of them.
pub(crate) fn rates(capacities: &[i64], given: &[Option<Given>]) -> Vec<f64> {
    let mut left: Vec<Fraction> = capacities.iter().map(|c| Fraction::whole(*c)).collect();
    let mut rates = vec![Fraction::whole(0); given.len()];
    let mut priorities: Vec<_> = given.iter().flatten().map(|one| one.priority).collect();
    priorities.sort_unstable();
    priorities.dedup();
    for priority in priorities {
        let equal = |row: &usize| given[*row].as_ref().is_some_and(|one| one.priority == priority);
        let mut open: Vec<usize> = (0..given.len()).filter(equal).collect();
        let of = |row: usize| given[row].as_ref().expect("only rows of flows are open");
        while !open.is_empty() {
            // The level at which the first port is full or the first cap is reached.
            let ports = (0..capacities.len()).filter_map(|port| {
                let here = |row: &&usize| of(**row).ports.contains(&(port as u32));
                let weight: i64 = open.iter().filter(here).map(|row| of(*row).weight).sum();
                (weight > 0).then(|| left[port].over(weight))
            });
            let caps = open.iter().filter_map(|row| {
                let one = of(*row);
                Some(Fraction::whole(one.cap?).over(one.weight))
            });
            let level = ports.chain(caps).reduce(|a, b| if b.less(a) { b } else { a });
            let level = level.expect("every flow crosses a port");
            let full = |port: u32, open: &[usize]| {
                let here = |row: &&usize| of(**row).ports.contains(&port);
                let weight: i64 = open.iter().filter(here).map(|row| of(*row).weight).sum();
                !level.less(left[port as usize].over(weight))
            };
            let stops = |row: &usize| {
                let one = of(*row);
                let capped =
                    one.cap.is_some_and(|cap| !level.times(one.weight).less(Fraction::whole(cap)));
                capped || one.ports.iter().any(|port| full(*port, &open))
            };
            let (stopped, goes_on): (Vec<usize>, Vec<usize>) =
                open.iter().partition(|row| stops(row));
            for row in stopped {
                let rate = level.times(of(row).weight);
                rates[row] = rate;
                for port in &of(row).ports {
                    left[*port as usize] = left[*port as usize].minus(rate);
                }
            }
            open = goes_on;
        }
    }
    rates.iter().map(|rate| rate.0 as f64 / rate.1 as f64).collect()
}
