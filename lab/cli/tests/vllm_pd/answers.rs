//! The answers of the pair are those of the control engine, and the pair gave them.

use super::engines::BLOCK;
use super::prompts::twenty;
use super::world::{World, row};

/// Bytes of a block: keys and values of 4 layers, 256 wide, in 32-bit floats.
const BLOCK_BYTES: u64 = BLOCK * 2 * 4 * 256 * 4;
const BYTES: &str = "vllm:nixl_bytes_transferred_sum";
const TRANSFERS: &str = "vllm:nixl_bytes_transferred_count";
const SOURCES: &str = "vllm:prompt_tokens_by_source_total";

/// The counts of a run, by the engine that fetches and by the gateway.
struct Counts {
    bytes: u64,
    transfers: u64,
    tokens: u64,
    legs: u64,
    fetched: u64,
    fallbacks: u64,
}

impl Counts {
    async fn now(world: &World) -> Counts {
        let page = world.decode.page().await;
        let count = |name| page.count(name).unwrap_or(0);
        let fetched = page.count_with(SOURCES, &["source=\"external_kv_transfer\""]);
        Counts {
            bytes: count(BYTES),
            transfers: count(TRANSFERS),
            tokens: fetched.unwrap_or(0),
            legs: world.counted("meridian_prefill_leg_seconds_count").await,
            fetched: world.counted("meridian_kv_transfer_seconds_count").await,
            fallbacks: world.counted("meridian_prefill_fallbacks_total").await,
        }
    }
}

/// Twenty prompts through the gateway and at the control engine: the same text and the same first
/// log-probability. Engines and gateway count the same twenty transfers.
pub(super) async fn twenty_prompts(world: &World) {
    let before = Counts::now(world).await;
    let (mut same, mut split, mut tokens) = (0, 0, 0);
    for (n, asked) in twenty().iter().enumerate() {
        let control = asked.at(&world.control.url).await;
        let said = asked.at(&world.gateway.url).await;
        let is_same = said.is(&control);
        println!(
            "{n:2} {} {:4} tokens, streamed {}: status {}, log-probability {:?}, control {:?}, {}",
            asked.path,
            said.prompt_tokens,
            asked.body["stream"] == true,
            said.status,
            said.first_logprob,
            control.first_logprob,
            if is_same { "same" } else { "NOT THE SAME" },
        );
        same += usize::from(is_same);
        split += usize::from(said.prefill.is_some());
        tokens += said.prompt_tokens;
    }
    println!("{same} of 20 identical, {split} by the pair, {tokens} prompt tokens");
    assert_eq!((same, split), (20, 20));
    pair_was_used(&before, &Counts::now(world).await, tokens);
}

fn pair_was_used(before: &Counts, after: &Counts, prompt_tokens: u64) {
    let bytes = after.bytes - before.bytes;
    let (blocks, tokens) = (bytes / BLOCK_BYTES, after.tokens - before.tokens);
    println!("{bytes} bytes are {blocks} blocks for {tokens} fetched tokens");
    assert_eq!(after.transfers - before.transfers, 20, "transfers of the engine");
    assert_eq!(after.legs - before.legs, 20, "prefill legs of the gateway");
    assert_eq!(after.fetched - before.fetched, 20, "transfers of the gateway");
    assert_eq!(after.fallbacks - before.fallbacks, 0);
    assert_eq!(bytes % BLOCK_BYTES, 0, "whole blocks");
    // The last block of a prompt may be partly filled.
    let least = tokens.div_ceil(BLOCK);
    assert!((least..=least + 20).contains(&blocks), "{blocks} blocks for {tokens} tokens");
    assert!(tokens <= prompt_tokens && tokens > prompt_tokens / 2, "{tokens} of {prompt_tokens}");
    row("20 prompts", "20 answers of 20 identical", "20 transfers, bytes as blocks");
}
