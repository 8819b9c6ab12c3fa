//! Ends of prompts, which have no block id in a journal.
//!
//! A journal names whole blocks of 512 tokens; the rest of a prompt has no id and would share
//! nothing. In a conversation it does share: the next turn starts with the whole prompt of the turn
//! before it. So requests of one session with the same whole blocks get the same text at their ends,
//! as far as the shorter one reaches. In a tree of requests, siblings then share a little more than
//! they did: the text in which they differ, if it is within the last block.

use meridian_base::mix;
use meridian_workload::trace::TraceRequest;

/// Tag of the ids.
const TAIL: u64 = 0x5441_494C;

/// Names the end of each prompt that belongs to a session and has none.
pub(crate) fn name(requests: &mut [TraceRequest]) {
    let block = requests.iter().map(|request| request.block_tokens).max().unwrap_or(0);
    for request in requests {
        let Some(session) = request.session else { continue };
        // A prompt shorter than a block has no ids, and so no size of its own.
        if request.hash_ids.is_empty() && request.input_tokens < block {
            request.block_tokens = block;
        }
        let whole = request.input_tokens.checked_div(request.block_tokens);
        let rest = request.input_tokens.checked_rem(request.block_tokens);
        if whole == Some(request.hash_ids.len() as u32) && rest > Some(0) {
            let start = mix(TAIL, session);
            let tail = request.hash_ids.iter().fold(start, |hash, id| mix(hash, *id));
            request.hash_ids.push(tail);
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

    // Turns of a session that end in the same block get the same id there; other sessions, other
    // blocks, and ends that already have an id do not change. A prompt of less than a block counts.
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
        let ids = |at: usize| &all[at].hash_ids;
        assert_eq!((ids(0).len(), ids(0)), (2, ids(1)));
        assert_eq!(ids(2).len(), 3);
        assert!(ids(0)[1] != ids(3)[1] && ids(0)[1] != ids(2)[2]);
        assert_eq!((ids(4).len(), ids(5).len(), ids(6)[1]), (1, 2, 9));
        assert_eq!((ids(7), all[7].block_tokens), (ids(8), 8));
    }
}
