//! Ends of prompts, which have no block id in a journal.
//!
//! A journal names whole blocks; the rest of a prompt has no id and would share nothing. In a
//! conversation it does share: the next turn starts with the whole prompt of the turn before it. So
//! requests of one session with the same ids get the same text at their ends, as far as the shorter
//! one reaches. In a tree of requests, siblings then share a little more than they did: the text in
//! which they differ, if it has no id.

use std::collections::HashMap;

use meridian_base::mix;
use meridian_workload::trace::TraceRequest;

/// Tag of the ids.
const TAIL: u64 = 0x5441_494C;
/// Most blocks of an end that is named. Only prompts of a journal's first seconds have more than a few
/// blocks without an id.
const MOST: u32 = 1024;

/// Names the end of each prompt that belongs to a session and has none.
///
/// A prompt without any id is such an end if it is shorter than a block, or if it came before the
/// gateway knew the bytes of one: then a later request of its session has ids.
pub fn name(requests: &mut [TraceRequest]) {
    let with_ids = requests.iter().filter(|request| !request.hash_ids.is_empty());
    let blocks: HashMap<u64, u32> =
        with_ids.filter_map(|request| Some((request.session?, request.block_tokens))).collect();
    for request in requests {
        let Some(session) = request.session else { continue };
        if request.hash_ids.is_empty() && request.input_tokens >= request.block_tokens {
            let Some(block) = blocks.get(&session) else { continue };
            request.block_tokens = *block;
        }
        let block = request.block_tokens;
        let rest = request.input_tokens.saturating_sub(request.hash_ids.len() as u32 * block);
        if block > 0 && rest > 0 && rest.div_ceil(block) <= MOST {
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
        let request = TraceRequest::new(Time::ZERO, tokens, 5);
        TraceRequest { session, block_tokens: 8, hash_ids: ids.to_vec(), ..request }
    }

    // Turns of a session that end after the same ids get the same end; other sessions, other blocks,
    // and ends that already have an id do not change. A prompt without ids counts if it is shorter than
    // a block or its session has ids.
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
            request(Some(2), 12, &[]),
            request(Some(4), 12, &[]),
            TraceRequest { block_tokens: 1, ..request(Some(4), 1 << 24, &[1]) },
        ];
        name(&mut all);
        let tail = |at: usize| all[at].tail;
        assert!(tail(0).is_some() && tail(0) == tail(1));
        assert!(tail(2).is_some() && tail(0) != tail(3) && tail(0) != tail(2));
        assert_eq!((tail(4), tail(5), tail(6)), (None, None, None));
        assert!(tail(7).is_some() && tail(7) == tail(8));
        assert!(tail(9).is_some() && tail(9) != tail(3), "its session has ids elsewhere");
        assert_eq!(all[10].block_tokens, 1, "the size of its session");
        assert_eq!((tail(10).is_some(), tail(11)), (true, None), "too long an end");
    }
}
