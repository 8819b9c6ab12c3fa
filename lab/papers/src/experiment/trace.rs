//! Recorded loads: a trace is read once, and turned into each region's requests for every seed.
//!
//! Requests arrive at their own times, regardless of earlier ones. The session's hash and the seed
//! determine its region, and likewise an arrival's position within the step of the grid that it was
//! rounded to. Replies are taken from later turns, so that replicas have them cached as the
//! recorded engine did ([`meridian_workload::trace::ProgramOptions`]).

use std::sync::Arc;

use anyhow::{Context, anyhow, bail, ensure};
use meridian_base::{Duration, Time, mix};
use meridian_tools::trace_file;
use meridian_workload::Program;
use meridian_workload::trace::{
    EXCERPTS, Format, ProgramOptions, ReadOptions, Shape, TraceRequest, find_excerpt, shape,
    start_of, to_programs,
};

use super::spec::{Measure, Place, Trace};

/// Most requests of a run.
const MOST: usize = 1 << 22;
/// Lines may be out of order by less than this.
const ORDER: Duration = Duration::from_secs(600);

/// Requests of a trace, as they were recorded.
pub struct Recorded {
    requests: Vec<TraceRequest>,
    spec: Trace,
}

impl Recorded {
    /// Reads as much of a trace as a run of `measure` needs.
    ///
    /// # Errors
    ///
    /// If the load or the trace is invalid; the error names the remedy.
    pub fn read(spec: &Trace, measure: Measure) -> anyhow::Result<Recorded> {
        ensure!(
            spec.speed > 0.0 && spec.speed.is_finite(),
            "speed: {} is not a speed; use a number above 0",
            spec.speed
        );
        let run = (measure.warmup.0 + measure.window.0).as_secs_f64() * spec.speed;
        let end = spec.after.map_or(Duration::ZERO, |after| after.0) + Duration::from_secs_f64(run);
        let requests = match (&spec.name, &spec.file) {
            (Some(name), None) => excerpt(name)?,
            (None, Some(file)) => {
                let name = || format!("file: {}", file.display());
                from_file(spec, end + ORDER).with_context(name)?
            }
            _ => bail!("give either the name of an excerpt or a file"),
        };
        let times = || requests.iter().map(|r| r.at);
        let first = times().min().context("the trace holds no requests")?;
        let length = times().max().unwrap_or(first).since(start_of(first));
        if spec.requests.is_none() && length < end.mul_f64(0.99) {
            bail!(
                "the trace ends after {:.0} s, and the run needs {:.0} s of it; shorten measure, \
                 lower speed, or say how many requests to send",
                length.as_secs_f64(),
                end.as_secs_f64()
            );
        }
        Ok(Recorded { requests, spec: spec.clone() })
    }

    /// Each region's programs, by time.
    ///
    /// # Errors
    /// When a share is none, or the trace's regions are not those of the experiment.
    pub fn programs(
        &self,
        speed: f64,
        regions: &[Place],
        seed: u64,
    ) -> anyhow::Result<Vec<Vec<(Time, Program)>>> {
        let names: Vec<Arc<str>> = regions.iter().map(|r| r.name.as_str().into()).collect();
        let spec = &self.spec;
        let shares = spec.share.iter().flatten().copied();
        let to = Shape {
            seed,
            order_within: ORDER,
            spread: spec.spread.map_or(Duration::ZERO, |span| span.0),
            from: Time::ZERO + spec.after.map_or(Duration::ZERO, |span| span.0),
            rate: speed,
            limit: spec.requests.unwrap_or(u64::MAX),
            sessions_beyond: spec.sessions_beyond,
            regions: names.iter().cloned().zip(shares).filter(|(_, s)| *s > 0.0).collect(),
            ..Shape::default()
        };
        let shaped = shape(self.requests.iter().cloned().map(Ok), &to)?;
        let options = ProgramOptions { seed, regions: names, chained: None, replies: true };
        let mut programs: Vec<Vec<(Time, Program)>> = regions.iter().map(|_| Vec::new()).collect();
        for program in to_programs(shaped, &options) {
            let (at, program) = program?;
            let place = programs.get_mut(program.key.region as usize).ok_or_else(|| {
                anyhow!("share: missing, and the trace names regions that the experiment has not")
            })?;
            place.push((at, program));
        }
        Ok(programs)
    }

    /// Whether it records the regions of its requests.
    #[must_use]
    pub fn knows_regions(&self) -> bool {
        self.requests.iter().all(|request| request.region.is_some())
    }

    /// A hash of the requests.
    #[must_use]
    pub fn hash(&self) -> u64 {
        self.requests.iter().fold(0, |hash, r| {
            let lengths = u64::from(r.input_tokens) << 32 | u64::from(r.output_tokens);
            let hash = mix(mix(hash, r.at.as_nanos()), lengths);
            r.hash_ids.iter().fold(hash, |hash, id| mix(hash, *id))
        })
    }
}

fn excerpt(name: &str) -> anyhow::Result<Vec<TraceRequest>> {
    let found = find_excerpt(name).with_context(|| {
        let names: Vec<_> = EXCERPTS.iter().map(|e| e.name).collect();
        format!("name: `{name}` is not an excerpt; use one of {}, or a file", names.join(", "))
    })?;
    Ok(found.requests())
}

/// Requests of the time `most` from the start.
fn from_file(spec: &Trace, most: Duration) -> anyhow::Result<Vec<TraceRequest>> {
    let format = spec.format.as_deref().map(|name| {
        let names = Format::ALL.map(Format::name).join(", ");
        Format::named(name).with_context(|| format!("`{name}` is not a format; use one of {names}"))
    });
    let format = format.transpose()?;
    let file = spec.file.as_deref().context("no file")?;
    let options = ReadOptions { block_tokens: spec.block_tokens, ..ReadOptions::default() };
    let mut requests: Vec<TraceRequest> = Vec::new();
    let mut end = None;
    for request in trace_file::reader(trace_file::open(file)?, format, &options)? {
        let request = request?;
        if request.at >= *end.get_or_insert(start_of(request.at) + most) {
            break;
        }
        if requests.len() == MOST {
            bail!("a run holds at most {MOST} requests; shorten measure, or say how many to send");
        }
        requests.push(request);
    }
    Ok(requests)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;
    use std::io::Write;

    const TRACE: &str = "{name: mooncake, share: [0.5, 0, 0.5], spread: 3s, sessions_beyond: 1}";
    const MEASURE: Measure = Measure {
        warmup: meridian_protocol::units::Span::secs(10),
        window: meridian_protocol::units::Span::secs(590),
    };

    fn places() -> Vec<Place> {
        let place = |name: &str| Place { name: name.to_owned(), continent: name.to_owned() };
        ["us", "eu", "asia"].map(place).to_vec()
    }

    fn recorded(yaml: &str) -> anyhow::Result<Recorded> {
        let trace: Trace = super::super::spec::read("test", yaml)?;
        Recorded::read(&trace, MEASURE)
    }

    // A session is in one region, regions get their shares of sessions, and arrivals are faster by
    // the given factor; the same seed gives the same requests, another one different regions.
    #[test]
    fn sessions_stay_in_their_regions() {
        let recorded = recorded(TRACE).unwrap();
        let programs = |speed, seed| recorded.programs(speed, &places(), seed).unwrap();
        let once = programs(1.0, 1);
        assert_eq!(once, programs(1.0, 1));
        assert_ne!(once, programs(1.0, 2));
        let mut of_session: BTreeMap<u64, usize> = BTreeMap::new();
        for (region, (_, program)) in
            once.iter().enumerate().flat_map(|(r, all)| all.iter().map(move |p| (r, p)))
        {
            let first = *of_session.entry(program.session).or_insert(region);
            assert_eq!(first, region, "a session moved");
            assert_eq!(program.key.region as usize, region);
        }
        let [us, eu, asia] = [0, 1, 2].map(|r| once[r].len());
        assert_eq!((us + eu + asia, eu), (3658, 0));
        assert!((us as f64 / 3658.0 - 0.5).abs() < 0.05, "{us} and {asia}");
        let last =
            |all: &[Vec<(Time, Program)>]| all.iter().filter_map(|p| p.last()).map(|p| p.0).max();
        let (one, two) = (last(&once).unwrap(), last(&programs(2.0, 1)).unwrap());
        assert!((one.as_secs_f64() / two.as_secs_f64() - 2.0).abs() < 1e-6);
    }

    // A user's compressed file: a journal that names its regions keeps them; a region that the
    // experiment does not have is reported, and so is an invalid line.
    #[test]
    fn files_are_read() {
        let header = "{\"meridian_journal\":1,\"block_tokens\":16}";
        let row = |ms: u32, region: &str| {
            format!(
                "{{\"timestamp\":{ms},\"input_length\":40,\"output_length\":5,\"region\":\"{region}\"}}"
            )
        };
        let name = format!("meridian-trace-{}.jsonl.gz", std::process::id());
        let path = std::env::temp_dir().join(name);
        let write = |rows: &[String]| {
            let file = std::fs::File::create(&path).unwrap();
            let mut out = flate2::write::GzEncoder::new(file, flate2::Compression::fast());
            writeln!(out, "{header}\n{}", rows.join("\n")).unwrap();
            out.finish().unwrap();
        };
        let yaml = format!("{{file: {}}}", path.display());
        write(&[row(5, "asia"), row(7, "us"), row(598_000, "asia")]);
        let asia = recorded(&yaml).unwrap();
        assert!(asia.knows_regions());
        let programs = asia.programs(1.0, &places(), 1).unwrap();
        assert_eq!(programs.iter().map(Vec::len).collect::<Vec<_>>(), [1, 0, 2]);
        write(&[row(5, "mars"), row(598_000, "mars")]);
        let mars = recorded(&yaml).unwrap().programs(1.0, &places(), 1).unwrap_err();
        assert!(mars.to_string().contains("share: missing"), "{mars}");
        write(&[row(5, "mars").replace("40", "0")]);
        let bad = format!("{:#}", recorded(&yaml).err().unwrap());
        assert!(bad.contains("line 2: input_length is 0; give whole tokens"), "{bad}");
        std::fs::remove_file(&path).unwrap();
    }
}
