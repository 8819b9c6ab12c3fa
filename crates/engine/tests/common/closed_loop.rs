//! The engine against clients in a closed loop: each sends its next request when its last has ended
//! and it has thought for a moment. Shared by the calibration test and the fitting example.

use meridian_base::{Duration, RequestId, Rng, Time};
use meridian_engine::{Config, Engine, Input, Output, Submission};
use std::collections::BTreeSet;

/// Mean TTFT and TPOT in milliseconds of `rounds` requests of each of `clients`, the first of each
/// left out as warm-up. `think` is the mean thinking time in seconds.
pub(crate) fn closed_loop(
    config: Config,
    think: f64,
    [isl, osl, clients, rounds]: [u32; 4],
) -> (f64, f64) {
    let mut engine = Engine::new(config, 1).unwrap();
    let mut rng = Rng::new(1);
    let mut delay = || Duration::from_secs_f64(rng.exponential(think));
    let (clients, total) = (u64::from(clients), u64::from(clients * rounds));
    let request = |id: u64| Submission {
        id: RequestId(id),
        prompt_tokens: isl,
        reply_tokens: osl,
        max_tokens: osl,
        blocks: Vec::new(),
    };
    let mut starts: BTreeSet<(Time, u64)> =
        (0..clients).map(|id| (Time::ZERO + delay(), id)).collect();
    let (mut ttft, mut tpot) = (0.0, 0.0);
    let mut sent = clients;
    loop {
        let due = engine.poll_timeout();
        if let Some(&(at, id)) = starts.first()
            && due.is_none_or(|due| at <= due)
        {
            starts.pop_first();
            engine.handle(at, Input::Submit(request(id)));
            continue;
        }
        let Some(due) = due else { break };
        engine.handle_timeout(due);
        while let Some(output) = engine.poll() {
            let Output::Finished { at, id, timings, .. } = output else { continue };
            if id.0 >= clients {
                ttft += (timings.queued + timings.prefill).as_secs_f64() * 1e3;
                tpot += timings.decode.as_secs_f64() * 1e3 / f64::from(osl - 1);
            }
            if sent < total {
                starts.insert((at + delay(), sent));
                sent += 1;
            }
        }
    }
    let counted = (total - clients) as f64;
    (ttft / counted, tpot / counted)
}
