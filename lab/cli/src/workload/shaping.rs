//! The options that change times, sessions and regions of a trace.

use std::sync::Arc;
use std::time::Duration;

use meridian_base::Time;
use meridian_workload::trace::Shape;

#[derive(Debug, clap::Args)]
pub(crate) struct Shaping {
    /// Seed of --spread and --regions
    #[arg(long, default_value_t = 1)]
    shape_seed: u64,
    /// Grid of the arrival times, which are spread over its steps: 3s for Mooncake's
    #[arg(long, default_value = "0s", value_parser = humantime::parse_duration)]
    spread: Duration,
    /// Sort lines that are out of order by less than this
    #[arg(long, default_value = "10m", value_parser = humantime::parse_duration)]
    order_within: Duration,
    /// Drop requests that arrive earlier; times count from here
    #[arg(long, default_value = "0s", value_parser = humantime::parse_duration)]
    after: Duration,
    /// Drop requests that arrive then or later
    #[arg(long, value_parser = humantime::parse_duration)]
    before: Option<Duration>,
    /// Speed, as a multiple of the original
    #[arg(long, default_value_t = 1.0)]
    speed: f64,
    /// Stop after this many requests
    #[arg(long)]
    limit: Option<u64>,
    /// Treat a request without a session as a later turn if it shares more leading blocks than this
    /// with an earlier one
    #[arg(long)]
    sessions_beyond: Option<usize>,
    /// Give each session a region by weight, as us=0.5,eu=0.3,asia=0.2
    #[arg(long, value_delimiter = ',', value_parser = weight)]
    regions: Vec<(Arc<str>, f64)>,
}

impl Shaping {
    pub(crate) fn shape(&self) -> Shape {
        Shape {
            seed: self.shape_seed,
            order_within: self.order_within,
            spread: self.spread,
            from: Time::ZERO + self.after,
            to: self.before.map_or(Time::MAX, |before| Time::ZERO + before),
            rate: self.speed,
            limit: self.limit.unwrap_or(u64::MAX),
            sessions_beyond: self.sessions_beyond,
            regions: self.regions.clone(),
        }
    }
}

fn weight(text: &str) -> Result<(Arc<str>, f64), String> {
    let (name, weight) = text.split_once('=').ok_or("write name=weight")?;
    let number = weight.parse().map_err(|_| format!("`{weight}` is not a number"))?;
    Ok((Arc::from(name), number))
}
