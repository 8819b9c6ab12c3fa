//! Words of a line to an engine: `model gpu tp field=value...`.

use meridian_engine::{Config, Gpu, Model, Profile, TokenOutputs};

/// The engine's settings and the clients' mean thinking time in seconds; none where the model does
/// not fit. The fields override the GPU's numbers and the engine's settings.
pub(crate) fn config(words: &[&str]) -> Option<(Config, f64)> {
    let mut gpu = Gpu::named(words[1]).unwrap();
    let (mut budget, mut seqs, mut think) = (None, None, 0.0);
    for (field, value) in words[3..].iter().filter_map(|word| word.split_once('=')) {
        let value: f64 = value.parse().unwrap();
        match field {
            "bytes" => gpu.memory = value,
            "bandwidth" => gpu.bandwidth = value,
            "flops" => gpu.flops = value,
            "memory" => gpu.efficiency.memory = value,
            "compute" => gpu.efficiency.compute = value,
            "attention" => gpu.efficiency.attention = value,
            "step" => gpu.efficiency.step = value,
            "sequence" => gpu.efficiency.sequence = value,
            "reduce" => gpu.efficiency.reduce = value,
            "link" => gpu.efficiency.link = value,
            "budget" => budget = Some(value as u32),
            "think" => think = value,
            "seqs" => seqs = Some(value as u32),
            other => panic!("unknown field {other}"),
        }
    }
    let profile = Profile::new(Model::named(words[0]).unwrap(), gpu, words[2].parse().unwrap());
    let mut config = Config::new(profile.ok()?);
    config.token_outputs = TokenOutputs::First;
    config.decode_stride = 1 << 16;
    config.max_num_batched_tokens = budget.unwrap_or(config.max_num_batched_tokens);
    config.max_num_seqs = seqs.unwrap_or(config.max_num_seqs);
    Some((config, think))
}
