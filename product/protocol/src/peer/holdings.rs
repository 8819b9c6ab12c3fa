//! Encodes a replica's assumed cache contents as chains, each as the difference to the previous
//! one.
//!
//! Each message can be read alone. Holdings that do not fit into one message are split into parts,
//! each of which starts with a complete chain.

use meridian_base::{Branch, Holdings};

use super::bounds::{MOST_BLOCKS, MOST_HOST, PeerError, amount, at_most, name};
use super::proto;

/// Splits holdings into parts that fit into a message. A chain with more blocks than that is
/// truncated.
#[must_use]
pub fn parts(holdings: &Holdings) -> Vec<Holdings> {
    let ms_per_token = holdings.ms_per_token;
    let part = || Holdings { branches: Vec::new(), ms_per_token };
    let mut parts = vec![part()];
    let (mut chain, mut sent, mut room) = (Vec::new(), 0, MOST_BLOCKS);
    for Branch { keep, blocks } in &holdings.branches {
        assert!(*keep as usize <= chain.len(), "a branch grows from the chain before it");
        chain.truncate(*keep as usize);
        chain.extend_from_slice(blocks);
        let (mut keep, mut blocks) = (*keep as usize, blocks.as_slice());
        if keep > sent {
            continue;
        }
        if blocks.len() > room {
            parts.push(part());
            (keep, blocks, room) = (0, &chain[..chain.len().min(MOST_BLOCKS)], MOST_BLOCKS);
        }
        assert!(blocks.len() <= room, "a part of holdings fits into a message");
        (sent, room) = (keep + blocks.len(), room - blocks.len());
        let branch = Branch { keep: keep as u32, blocks: blocks.to_vec() };
        parts.last_mut().expect("has one").branches.push(branch);
    }
    parts.retain(|part| !part.is_empty());
    parts
}

pub(super) fn write(replica: &str, holdings: &Holdings) -> proto::Holdings {
    let branches = &holdings.branches;
    let blocks: Vec<u64> = branches.iter().flat_map(|b| b.blocks.iter().copied()).collect();
    assert!(blocks.len() <= MOST_BLOCKS, "holdings are sent in parts that a peer accepts");
    proto::Holdings {
        replica: replica.to_owned(),
        blocks,
        ms_per_token: holdings.ms_per_token.unwrap_or(0.0),
        lengths: branches.iter().map(|b| b.blocks.len() as u32).collect(),
        keeps: branches.iter().map(|b| b.keep).collect(),
    }
}

pub(super) fn read(sent: proto::Holdings) -> Result<(String, Holdings), PeerError> {
    name("replica", &sent.replica, MOST_HOST)?;
    at_most("blocks", sent.blocks.len(), MOST_BLOCKS)?;
    at_most("lengths", sent.lengths.len(), MOST_BLOCKS)?;
    let speed = amount("ms_per_token", sent.ms_per_token)?;
    let ms_per_token = Some(speed).filter(|ms| *ms > 0.0);
    Ok((
        sent.replica,
        Holdings { branches: branches(&sent.blocks, &sent.lengths, &sent.keeps)?, ms_per_token },
    ))
}

fn branches(blocks: &[u64], lengths: &[u32], keeps: &[u32]) -> Result<Vec<Branch>, PeerError> {
    if lengths.len() != keeps.len() {
        let value = keeps.len() as f64;
        return Err(PeerError::Value { field: "keeps", value, allowed: "as many as lengths" });
    }
    let (mut rest, mut chain) = (blocks, 0);
    let mut branches = Vec::with_capacity(lengths.len());
    for (&length, &keep) in lengths.iter().zip(keeps) {
        if keep as usize > chain {
            let (value, allowed) = (f64::from(keep), "within the chain before");
            return Err(PeerError::Value { field: "keeps", value, allowed });
        }
        let Some((these, after)) = rest.split_at_checked(length as usize) else {
            let (value, allowed) = (f64::from(length), "within the blocks sent");
            return Err(PeerError::Value { field: "lengths", value, allowed });
        };
        (rest, chain) = (after, keep as usize + these.len());
        branches.push(Branch { keep, blocks: these.to_vec() });
    }
    Ok(branches)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn branch(keep: u32, blocks: impl IntoIterator<Item = u64>) -> Branch {
        Branch { keep, blocks: blocks.into_iter().collect() }
    }

    fn holdings(branches: Vec<Branch>) -> Holdings {
        Holdings { branches, ms_per_token: Some(0.5) }
    }

    fn chains(parts: &[Holdings]) -> Vec<Vec<u64>> {
        let mut chain = Vec::new();
        let mut chains = Vec::new();
        for part in parts {
            chain.clear();
            for branch in &part.branches {
                assert!(branch.keep as usize <= chain.len(), "a part stands for itself");
                chain.truncate(branch.keep as usize);
                chain.extend_from_slice(&branch.blocks);
                chains.push(chain.clone());
            }
        }
        chains
    }

    // Holdings read back as sent.
    #[test]
    fn holdings_go_over() {
        let sent = holdings(vec![branch(0, 1..4), branch(2, 7..9), branch(4, 9..10)]);
        let (replica, heard) = read(write("gpu:1", &sent)).expect("reads");
        assert_eq!((replica.as_str(), heard), ("gpu:1", sent));
    }

    // Blocks without chains, as sent before minor version 4, are ignored.
    #[test]
    fn blocks_alone_are_passed_over() {
        let sent = proto::Holdings {
            lengths: vec![],
            keeps: vec![],
            ..write("gpu:1", &holdings(vec![branch(0, 1..4)]))
        };
        assert_eq!(read(sent).expect("reads").1, holdings(vec![]));
    }

    // Lists that do not fit together are refused; the error names the problem.
    #[test]
    fn broken_lists_are_refused() {
        let sent = write("gpu:1", &holdings(vec![branch(0, 1..4), branch(2, 7..9)]));
        let wrong = |lengths: &[u32], keeps: &[u32]| {
            let (lengths, keeps) = (lengths.to_vec(), keeps.to_vec());
            let sent = proto::Holdings { lengths, keeps, ..sent.clone() };
            read(sent).expect_err("is broken").to_string()
        };
        assert_eq!(wrong(&[3, 2], &[0]), "keeps: 1 is not as many as lengths");
        assert_eq!(wrong(&[3, 2], &[0, 4]), "keeps: 4 is not within the chain before");
        assert_eq!(wrong(&[3, 3], &[0, 2]), "lengths: 3 is not within the blocks sent");
    }

    // Chains that fit into a message are sent in full, in as many messages as needed. A longer
    // chain is truncated to one message.
    #[test]
    fn large_holdings_are_sent_in_parts() {
        let most = MOST_BLOCKS as u64;
        let sent = holdings(vec![
            branch(0, 0..most - 1_000),
            branch(5_000, most..most + 900),
            branch(5_500, 20_000..20_500),
            branch(100, 30_000..30_000 + 2 * most),
            branch(most as u32 + 500, 90_000..90_001),
            branch(50, 100_000..100_001),
        ]);
        let parts = parts(&sent);
        let most = MOST_BLOCKS;
        for part in &parts {
            assert!(part.blocks() <= most && part.ms_per_token == Some(0.5));
        }
        let mut whole = chains(&[sent]);
        whole.remove(4);
        whole[3].truncate(most);
        assert_eq!(chains(&parts), whole);
        assert!(super::parts(&Holdings::default()).is_empty());
    }
}
