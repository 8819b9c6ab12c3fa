//! ServeGen's client rates (alibaba/ServeGen, arXiv 2505.09999): for each client and each window of
//! ten minutes, its rate and the distribution of its gaps. The arrival process reads them here.
//!
//! The columns are those of the per-client files joined into one: `client, window_start_s,
//! rate_rps, cv, dist, param1, param2`.

use std::io::BufRead;
use std::sync::Arc;

use super::azure::{columns, shown};
use super::fields::is_name;
use super::lines::Lines;
use super::{Fault, TraceError};

const COLUMNS: &str = "client,window_start_s,rate_rps,cv,dist,param1,param2";

/// One client in one window.
#[derive(Clone, Debug, PartialEq)]
pub struct ServeGenRates {
    /// Its number.
    pub client: u32,
    /// The start of the window, in seconds from midnight of the first day.
    pub window_start_s: u64,
    /// Requests a second, above 0.
    pub rate_rps: f64,
    /// Coefficient of variation of the gaps between its requests.
    pub cv: f64,
    /// The family of distributions fitted to the gaps: Gamma or Weibull.
    pub dist: Arc<str>,
    /// Its parameters, as published.
    pub params: [f64; 2],
}

/// Reads rates, row by row.
pub struct ServeGenReader<R> {
    lines: Lines<R>,
    header: bool,
    over: bool,
}

impl<R: BufRead> ServeGenReader<R> {
    /// Reads `input`, which starts with the column names.
    pub fn new(input: R) -> ServeGenReader<R> {
        ServeGenReader { lines: Lines::new(input, 4096), header: false, over: false }
    }

    fn step(&mut self) -> Result<Option<ServeGenRates>, TraceError> {
        while let Some(line) = self.lines.read()? {
            let (number, ended) = (line.number, line.ended);
            let row = match std::str::from_utf8(line.bytes) {
                Ok("") => continue,
                Ok(text) if self.header => row(text),
                Ok(COLUMNS) => {
                    self.header = true;
                    continue;
                }
                _ => Err(Fault::new("the first line", "not a header", format!("write {COLUMNS}"))),
            };
            return row.map(Some).map_err(|fault| match fault.unfinished && !ended {
                true => TraceError::CutShort { line: number },
                false => TraceError::Line { line: number, fault },
            });
        }
        Ok(None)
    }
}

impl<R: BufRead> Iterator for ServeGenReader<R> {
    type Item = Result<ServeGenRates, TraceError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.over {
            return None;
        }
        let next = self.step().transpose();
        self.over = !matches!(next, Some(Ok(_)));
        next
    }
}

fn row(line: &str) -> Result<ServeGenRates, Fault> {
    let [client, window, rate, cv, dist, a, b] = columns(line)?;
    let above_0 = "give a number above 0";
    Ok(ServeGenRates {
        client: client.parse().map_err(|_| shown("client", client, "give a whole number"))?,
        window_start_s: window
            .parse()
            .map_err(|_| shown("window_start_s", window, "give whole seconds"))?,
        rate_rps: number("rate_rps", rate, |x| x > 0.0, above_0)?,
        cv: number("cv", cv, |x| x >= 0.0, "give a number from 0")?,
        dist: match is_name(dist) {
            true => Arc::from(dist),
            false => return Err(Fault::new("dist", "not a name", "write Gamma or Weibull")),
        },
        params: [
            number("param1", a, |_| true, "give a number")?,
            number("param2", b, |_| true, "give a number")?,
        ],
    })
}

fn number(name: &str, text: &str, fits: fn(f64) -> bool, remedy: &str) -> Result<f64, Fault> {
    let number = text.parse().ok().filter(|&x: &f64| x.is_finite() && fits(x));
    number.ok_or_else(|| shown(name, text, remedy))
}
