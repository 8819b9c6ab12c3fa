//! Tests of the planner on HeroServe's testbed, and of its messages if there is no plan.

use meridian_plan::{
    Lengths, Problems, Slo, Subject, Task, Topology, TopologySpec, advice, idle, plan, step_in,
    step_out,
};

fn testbed() -> Topology {
    let yaml = include_str!("../../topologies/heroserve-testbed.yaml");
    TopologySpec::read(yaml).unwrap().build().unwrap()
}

fn asked<'a>(topology: &'a Topology, subject: &'a Subject, ttft: f64, tpot: f64) -> Task<'a> {
    let prompt = Lengths { mean: 300.0, cv: 1.0 };
    let output = Lengths { mean: 200.0, cv: 1.0 };
    Task::new(topology, subject, (prompt, output), Slo { ttft, tpot, attainment: 0.9 })
}

fn refused(model: &str, ttft: f64, tpot: f64, change: impl Fn(&mut Task<'_>)) -> String {
    let (topology, subject) = (testbed(), Subject::named(model).unwrap());
    let mut task = asked(&topology, &subject, ttft, tpot);
    change(&mut task);
    let problems: Problems = plan(&task).unwrap_err();
    problems.to_string()
}

// The paper's own case has a plan, whose GPUs are each used once, with both phases.
#[test]
fn the_testbed_has_a_plan() {
    let (topology, subject) = (testbed(), Subject::named("opt-66b").unwrap());
    let plans = plan(&asked(&topology, &subject, 2.5, 0.15)).unwrap();
    let best = &plans[0];
    assert!(best.goodput() > 0.0);
    let mut gpus: Vec<u32> =
        best.instances().flat_map(|rated| rated.instance.gpus()).map(|gpu| gpu.0).collect();
    let used = gpus.len();
    gpus.sort_unstable();
    gpus.dedup();
    assert_eq!((gpus.len(), best.gpus() as usize), (used, used));
    assert!(plans.windows(2).all(|pair| pair[0].goodput() >= pair[1].goodput()));
}

// An unreachable objective is reported with the reachable value.
#[test]
fn impossible_objectives_have_the_nearest_feasible() {
    let both = refused("opt-66b", 0.01, 0.001, |_| ());
    let lines: Vec<&str> = both.lines().collect();
    assert_eq!(lines.len(), 2, "{both}");
    assert!(lines[0].starts_with("ttft: 10ms; the fastest prefill here does "), "{both}");
    assert!(lines[1].starts_with("tpot: 1ms; the fastest decode here does "), "{both}");
    // A tenth more than the fastest has a plan for each phase; both phases together have one at the
    // suggested value.
    let spans = |text: &str, before: &str| {
        let after = text.split(before).nth(1).and_then(|rest| rest.split(' ').next());
        let span = after.unwrap_or_else(|| panic!("no {before} in {text}"));
        match span.strip_suffix("ms") {
            Some(ms) => 1e-3 * ms.parse::<f64>().unwrap(),
            None => span.trim_end_matches('s').parse().unwrap(),
        }
    };
    for line in &lines {
        let (fastest, allowed) = (spans(line, " here does "), spans(line, "; allow "));
        assert!((1.05..1.15).contains(&(allowed / fastest)), "{line}");
    }
    let [ttft, tpot] = [" a ttft of ", " a tpot of "].map(|before| spans(lines[1], before));
    let (topology, subject) = (testbed(), Subject::named("opt-66b").unwrap());
    assert!(plan(&asked(&topology, &subject, ttft, tpot)).is_ok(), "{both}");
}

// For a model that is too large, the message says how many GPUs it would take.
#[test]
fn too_little_memory_says_how_much_is_needed() {
    let text = refused("deepseek-v3", 10.0, 1.0, |_| ());
    assert!(text.starts_with("memory: deepseek-v3 takes "), "{text}");
    assert!(text.contains("no split up to 32 a100-40g is enough; use larger GPUs"), "{text}");
    // 894 GiB over 24 GPUs would leave no memory for KV.
    let text = refused("qwen3-coder-480b", 10.0, 1.0, |_| ());
    assert!(text.contains("each need 32 a100-40g (tp 4, pp 8)"), "{text}");
}

// If each phase fits alone but both do not, the message says how much they need together.
#[test]
fn phases_that_do_not_fit_together_say_what_would_do() {
    let yaml = "version: 1\nunits:\n- servers:\n  - {gpu: a100, gpus: 1}\n";
    let topology = TopologySpec::read(yaml).unwrap().build().unwrap();
    let subject = Subject::named("llama-3.1-8b").unwrap();
    let text = plan(&asked(&topology, &subject, 2.5, 0.15)).unwrap_err().to_string();
    assert!(text.starts_with("gpus: 1; each phase fits alone, but not both at once: "), "{text}");
    assert!(text.contains("the smallest prefill takes 1 GPUs (tp 1, pp 1)"), "{text}");
    assert!(text.contains("give 2 that reach each other"), "{text}");
}

// Six servers are cut into cells of four and two, and two hold no plan: a cell of all six serves
// more than twice as much. The GPUs that stay idle are then fewer than the smallest instance needs,
// and the plan says so.
#[test]
fn gpus_stay_idle_for_a_reason() {
    let yaml = "version: 1\nunits:\n- access: {count: 2}\n  servers:\n  - {count: 6, gpu: a100-40g, \
                gpus: 8, nvlink: 300GB/s, cards: 4, card_rate: 100Gb/s}\n";
    let topology = TopologySpec::read(yaml).unwrap().build().unwrap();
    let subject = Subject::named("opt-175b").unwrap();
    let lengths = |mean| Lengths { mean, cv: 0.4 };
    let slo = Slo { ttft: 4.0, tpot: 0.2, attainment: 0.9 };
    let task = Task::new(&topology, &subject, (lengths(790.0), lengths(650.0)), slo);
    let plans = plan(&task).unwrap();
    assert!(plans[0].gpus() >= 44, "{}", plans[0].gpus());
    let few = plans.iter().find(|plan| plan.gpus() == 28).unwrap();
    assert!(plans[0].goodput() > 2.0 * few.goodput());
    let why = idle(&task, few).unwrap();
    assert!(why.starts_with("20 GPUs stay idle, 8 on one server at most: decode limits"), "{why}");
    assert!(why.contains("the smallest prefill takes 12 GPUs"), "{why}");
    let why = idle(&task, &plans[0]).unwrap();
    assert!(why.starts_with("4 GPUs stay idle, 4 on one server at most: "), "{why}");
}

// A rate beyond the topology is refused with the maximum; one within takes fewer GPUs than all.
#[test]
fn a_rate_takes_as_few_gpus_as_will_do() {
    let text = refused("opt-66b", 2.5, 0.15, |task| task.rate = Some(1e6));
    assert!(text.starts_with("rate: 1000000; the topology serves "), "{text}");
    let (topology, subject) = (testbed(), Subject::named("llama-3.1-8b").unwrap());
    let mut task = asked(&topology, &subject, 2.5, 0.15);
    let all = plan(&task).unwrap()[0].clone();
    task.rate = Some(all.goodput() / 4.0);
    let some = plan(&task).unwrap()[0].clone();
    assert!(some.goodput() >= all.goodput() / 4.0);
    assert!(some.gpus() < all.gpus(), "{} {}", some.gpus(), all.gpus());
    let why = idle(&task, &some).unwrap();
    assert!(why.ends_with(" GPUs stay idle: the rate needs no more"), "{why}");
}

// Invalid values in the task are refused, all at once.
#[test]
fn nonsense_is_refused_at_once() {
    let text = refused("opt-66b", 0.0, -1.0, |task| {
        task.prompt.mean = 0.0;
        task.output.mean = 4000.0;
        task.slo.attainment = 1.0;
        task.rate = Some(-3.0);
    });
    assert_eq!(text.lines().count(), 7, "{text}");
}

// One more server never serves less than now, and the best of the single changes comes first.
#[test]
fn advice_is_what_replanning_gives() {
    let spec = TopologySpec::read(include_str!("../../topologies/heroserve-testbed.yaml")).unwrap();
    let (topology, subject) = (testbed(), Subject::named("opt-66b").unwrap());
    let task = asked(&topology, &subject, 2.5, 0.15);
    let now = plan(&task).unwrap()[0].goodput();
    let all = advice(&spec, &task);
    assert_eq!(all.len(), 6, "{all:?}");
    assert!(all.windows(2).all(|pair| pair[0].goodput >= pair[1].goodput));
    let servers: Vec<_> = all.iter().filter(|one| one.gpus == 4).collect();
    assert_eq!(servers.len(), 2);
    assert!(servers.iter().all(|one| one.goodput >= now * 0.999), "{now} {all:?}");
}

// A step to scale out a small plan uses free GPUs, serves more and keeps running instances; a step
// to scale in frees GPUs.
#[test]
fn steps_change_as_little_as_will_do() {
    let (topology, subject) = (testbed(), Subject::named("llama-3.1-8b").unwrap());
    let mut task = asked(&topology, &subject, 2.5, 0.15);
    task.rate = Some(20.0);
    let small = plan(&task).unwrap()[0].cells[0].clone();
    task.rate = None;
    let out = step_out(&task, &small).unwrap();
    assert!(out.after.verdict.goodput > small.verdict.goodput);
    let kept = small.fleet.all().all(|one| out.after.fleet.all().any(|other| other == one));
    assert!(kept, "running instances stay where they are");
    let grown = out.after;
    let back = step_in(&task, &grown).unwrap();
    assert_eq!(back.after.fleet.all().count() + 1, grown.fleet.all().count());
    assert!(back.after.fleet.gpus() < grown.fleet.gpus());
}
