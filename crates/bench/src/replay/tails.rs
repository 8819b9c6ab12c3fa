//! Ends of prompts, which have no block id in a journal.
//!
//! A journal names whole blocks; the rest of a prompt has no id and would share nothing. In a
//! conversation it does share: the next turn starts with the whole prompt of the turn before it. So
//! requests of one session with the same ids get the same text at their ends, as far as the shorter
//! one reaches. In a tree of requests, siblings then share a little more than they did: the text in
//! which they differ, if it has no id.

use meridian_base::mix;
use meridian_workload::trace::TraceRequest;

/// Tag of the ids.
const TAIL: u64 = 0x5441_494C;

/// Names the end of each prompt that belongs to a session and has none.
pub(crate) fn name(requests: &mut [TraceRequest]) {
    let block = requests.iter().map(|request| request.block_tokens).max().unwrap_or(0);
    for request in requests {
        let Some(session) = request.session else { continue };
        // A prompt without ids has no size of its own.
        if request.hash_ids.is_empty() {
            request.block_tokens = block;
        }
        let named = request.hash_ids.len() as u32 * request.block_tokens;
        if request.block_tokens > 0 && named < request.input_tokens {
            let start = mix(TAIL, session);
            request.tail = Some(request.hash_ids.iter().fold(start, |hash, id| mix(hash, *id)));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use meridian_base::Time;

    fn request(session: Option<u64>, tokens: u32, ids: &[u64]) -> TraceRequest {
        let block_tokens = if ids.is_empty() { 0 } else { 8 };
        let request = TraceRequest::new(Time::ZERO, tokens, 5);
        TraceRequest { session, block_tokens, hash_ids: ids.to_vec(), ..request }
    }

    // Turns of a session that end after the same ids get the same end; other sessions, other blocks,
    // and ends that already have an id do not change. A prompt without ids counts.
    #[test]
    fn turns_share_their_ends() {
        let mut all = [
            request(Some(1), 10, &[7]),
            request(Some(1), 14, &[7]),
            request(Some(1), 20, &[7, 8]),
            request(Some(2), 10, &[7]),
            request(None, 10, &[7]),
            request(Some(1), 16, &[7, 8]),
            request(Some(1), 10, &[7, 9]),
            request(Some(3), 5, &[]),
            request(Some(3), 6, &[]),
        ];
        name(&mut all);
        let tail = |at: usize| all[at].tail;
        assert!(tail(0).is_some() && tail(0) == tail(1));
        assert!(tail(2).is_some() && tail(0) != tail(3) && tail(0) != tail(2));
        assert_eq!((tail(4), tail(5), tail(6)), (None, None, None));
        assert!(tail(7).is_some() && tail(7) == tail(8) && all[7].block_tokens == 8);
    }
}
