//! Generated topologies of up to sixteen GPUs, each with a model, lengths and objectives.

use meridian_base::Rng;
use meridian_plan::units::Rate;
use meridian_plan::{
    AccessSpec, AggregationSpec, Lengths, ServerSpec, Slo, Subject, Task, Topology, TopologySpec,
    UnitSpec,
};

/// The number of cases of a comparison: as many as given, unless `MERIDIAN_CASES` says otherwise.
pub(crate) fn cases(usual: u64) -> u64 {
    let given = std::env::var("MERIDIAN_CASES").ok();
    given.map_or(usual, |count| count.parse().expect("MERIDIAN_CASES is a number"))
}

/// One case.
pub(crate) struct Case {
    spec: TopologySpec,
    topology: Topology,
    subject: Subject,
    prompt: f64,
    output: f64,
    slo: Slo,
}

const KINDS: [(&str, f64); 6] = [
    ("l4", 0.0),
    ("l40s", 0.0),
    ("v100", 150e9),
    ("a100-40g", 300e9),
    ("a100", 300e9),
    ("h100", 450e9),
];
const MODELS: [&str; 6] =
    ["llama-3.1-8b", "qwen2.5-14b", "qwen3-32b", "qwen3-30b-a3b", "opt-66b", "llama-3.1-70b"];

/// The case of a seed.
pub(crate) fn case(seed: u64) -> Case {
    let mut rng = Rng::new(seed).fork(6);
    let mut one_of = |list: &[f64]| list[rng.below(list.len())];
    let access = one_of(&[1.0, 1.0, 2.0]) as u32;
    let groups = one_of(&[1.0, 1.0, 2.0, 3.0]) as usize;
    let mut left = one_of(&[2.0, 4.0, 6.0, 8.0, 12.0, 16.0]) as u32;
    let aggregation = one_of(&[0.0, 25e9, 100e9]);
    let mut servers = Vec::new();
    for _ in 0..groups {
        let gpus = (one_of(&[1.0, 2.0, 4.0, 4.0, 8.0]) as u32).min(left);
        if gpus == 0 {
            break;
        }
        let count = (one_of(&[1.0, 1.0, 2.0, 3.0, 4.0]) as u32).min(left / gpus);
        left -= gpus * count;
        let (gpu, nvlink) = KINDS[one_of(&[0.0, 1.0, 2.0, 3.0, 4.0, 5.0]) as usize];
        let nvlink = (nvlink > 0.0 && one_of(&[0.0, 1.0, 1.0]) > 0.0).then_some(Rate(nvlink));
        let cards = access * (one_of(&[1.0, 2.0, 4.0]) as u32).min(gpus);
        let numa = if one_of(&[0.0, 1.0]) > 0.0 {
            (0..gpus).map(|at| (2 * at / gpus) as u8).collect()
        } else {
            Vec::new()
        };
        servers.push(ServerSpec {
            count,
            name: Some(format!("{gpu}-{}", servers.len())),
            hosts: Vec::new(),
            gpu: gpu.to_owned(),
            gpus,
            memory: None,
            nvlink,
            pcie: None,
            socket: Rate(one_of(&[10e9, 40e9])),
            numa,
            cards,
            card_rate: Some(Rate(one_of(&[25.0, 100.0, 400.0]) * 125e6)),
            card_numa: Vec::new(),
        });
    }
    let rate = Rate(aggregation);
    let latency = meridian_plan::units::Span(30e-6);
    let aggregation = (aggregation > 0.0).then_some(AggregationSpec { latency, rate });
    let access = AccessSpec { count: access, aggregation };
    let unit = UnitSpec { count: 1, access, servers };
    let spec = TopologySpec {
        version: 1,
        name: "case".to_owned(),
        units: vec![unit],
        core: None,
        measured: Vec::new(),
    };
    let subject = Subject::named(MODELS[one_of(&[0.0, 1.0, 2.0, 3.0, 4.0, 5.0]) as usize]).unwrap();
    let prompt = one_of(&[200.0, 600.0, 1500.0]);
    let output = one_of(&[60.0, 200.0, 400.0]);
    let slo = Slo {
        ttft: one_of(&[0.4, 1.0, 2.5, 6.0]),
        tpot: one_of(&[0.03, 0.06, 0.15]),
        attainment: 0.9,
    };
    Case { topology: spec.build().unwrap(), spec, subject, prompt, output, slo }
}

impl Case {
    /// Its planning task.
    pub(crate) fn task(&self) -> Task<'_> {
        let lengths = |mean| Lengths { mean, cv: 0.8 };
        let lengths = (lengths(self.prompt), lengths(self.output));
        Task::new(&self.topology, &self.subject, lengths, self.slo)
    }

    /// The case in words.
    pub(crate) fn text(&self) -> String {
        let Case { subject, prompt, output, slo, .. } = self;
        format!("{}{} {prompt} {output} {slo:?}", self.spec.print(), subject.name)
    }

    /// The same with one more GPU: in a new server, or in an existing one with a single card (with
    /// several, the others' GPUs would change cards).
    pub(crate) fn with_one_more_gpu(&self) -> Vec<Case> {
        let servers = &self.spec.units[0].servers;
        let has_room = |at: &usize| servers[*at].count == 1 && servers[*at].cards == 1;
        let grown = (0..servers.len()).filter(has_room).map(|at| {
            let mut servers = servers.clone();
            servers[at].gpus += 1;
            let last = servers[at].numa.last().copied();
            servers[at].numa.extend(last);
            servers
        });
        let more = ServerSpec {
            name: Some("more".to_owned()),
            count: 1,
            gpus: 1,
            numa: Vec::new(),
            ..servers[0].clone()
        };
        let alone = servers.iter().cloned().chain([more]).collect();
        core::iter::once(alone).chain(grown).map(|servers| self.with(servers)).collect()
    }

    fn with(&self, servers: Vec<ServerSpec>) -> Case {
        let mut spec = self.spec.clone();
        spec.units[0].servers = servers;
        let (topology, subject) = (spec.build().unwrap(), self.subject.clone());
        Case { topology, spec, subject, ..*self }
    }
}
