//! One seed gives the same programs on every platform and in every version: recorded results depend
//! on it. A changed snapshot means that every seed has changed its meaning.

use std::fmt::Write;

use expect_test::{Expect, expect};
use meridian_base::{keyed, mix};
use meridian_workload::{
    Chat, GENERATORS, Generator, Mixed, Piece, ProgramKey, Sessions, Tree, Walk, prompt_of,
    write_text,
};

/// Bytes and hash of the first prompts of two programs; each reply is its node's number.
fn check(generator: &dyn Generator, expected: Expect) {
    let mut out = String::new();
    for (client, ordinal) in [(0, 0), (1, 3)] {
        let key = ProgramKey { seed: 42, region: 0, client, ordinal };
        let mut walk = Walk::<String>::new(generator.program(key));
        writeln!(out, "session {:016x}", walk.program().session).expect("a String takes all");
        for _ in 0..3 {
            let Some(node) = walk.take() else { break };
            let mut text = String::new();
            for piece in walk.prompt(node) {
                match piece {
                    Piece::Text(s) => write_text(&mut text, s.id, s.bytes),
                    Piece::Reply(r) => text.push_str(r),
                }
            }
            let max = walk.program().nodes[node].max_tokens;
            let hash = keyed(0, text.as_bytes());
            writeln!(out, "{} bytes {hash:016x}, {max} tokens", text.len())
                .expect("a String takes all");
            walk.answered(node, format!("reply {node}"));
        }
    }
    expected.assert_eq(&out);
}

// Sessions: the first three prompts of two clients.
#[test]
fn sessions() {
    check(
        &Sessions::default(),
        expect![[r#"
        session 7d62ed72f014ee6b
        6304 bytes faf7d93776b05e58, 64 tokens
        6471 bytes 2cd0aed2e9b4ef31, 64 tokens
        6638 bytes 924df8d7a554c7de, 64 tokens
        session 44df440b1e936440
        6304 bytes d02ecfe656ead05c, 64 tokens
        6471 bytes 1068138303e14e0d, 64 tokens
        6638 bytes 550575d446e2000f, 64 tokens
    "#]],
    );
}

// Trees: the root and the first two thoughts.
#[test]
fn trees() {
    check(
        &Tree::default(),
        expect![[r#"
            session 7d62ed72f014ee6b
            218 bytes aabdc4ab51ec5d2f, 64 tokens
            289 bytes 595776e0b2c4138d, 64 tokens
            289 bytes 59a2cdcf329dc338, 64 tokens
            session 44df440b1e936440
            408 bytes 0aaad015a822a193, 64 tokens
            479 bytes 91930c3a06850003, 64 tokens
            479 bytes d096e6360ea11e9a, 64 tokens
        "#]],
    );
}

// Chats: lengths and text.
#[test]
fn chats() {
    check(
        &Chat::default(),
        expect![[r#"
        session 7d62ed72f014ee6b
        164 bytes 3622b040859ff1e9, 337 tokens
        195 bytes a808721d86bd0169, 1265 tokens
        226 bytes ad8e927dd98d1f0e, 1700 tokens
        session 44df440b1e936440
        2124 bytes 0d657e4e6ec3ab27, 678 tokens
    "#]],
    );
}

// Every generator of the registry with its published parameters: bytes of the first prompts, and
// one number for everything in 40 programs.
#[test]
fn published_generators() {
    let mut out = String::new();
    for spec in GENERATORS {
        let generator = spec.published();
        let (mut hash, mut first) = (0, Vec::new());
        for ordinal in 0..40 {
            let key = ProgramKey { seed: 42, region: 1, client: 0, ordinal };
            let program = generator.program(key);
            hash = mix(hash, program.session);
            for node in &program.nodes {
                let parent = node.parent.map_or(0, |parent| parent as u64 + 1);
                let think = node.think.as_nanos() as u64;
                let shape = [parent, u64::from(node.level), u64::from(node.max_tokens), think];
                let text = node.adds.iter().flat_map(|s| [s.id, u64::from(s.bytes)]);
                hash = shape.into_iter().chain(text).fold(hash, mix);
            }
            let prompt = prompt_of(&program, program.nodes.len() - 1);
            first.push(prompt.iter().map(|s| s.bytes).sum::<u32>());
        }
        writeln!(out, "{:10} {hash:016x} {:?}", spec.name, &first[..5])
            .expect("a String takes all");
    }
    expect![[r#"
        arena      c88e6eb08b3db302 [92, 12, 68, 4, 1416]
        wildchat   70c1fe180cd53970 [92, 12, 68, 4, 1416]
        tree2      d9f23b2e60c3f9b8 [1897, 1976, 2283, 1827, 1688]
        tree4      9b18a3f960dce200 [1989, 1820, 1815, 1659, 2212]
        qwen_a     2bf7865dfe92e8d8 [2596, 620, 1708, 1064, 2976]
        qwen_b     9f81f899b7a37fef [3324, 4972, 1868, 976, 2680]
        tool_agent 41a500eede7370d7 [25564, 46948, 13024, 27580, 17972]
        rag        df493843dfe25d2c [13672, 13080, 15484, 17024, 16148]
        sessions   bf7364c9c179629c [9216, 9216, 9216, 9216, 9216]
        single     d3e4054114c13813 [6304, 6304, 6304, 6304, 6304]
        tool_loop  1f60619e4248a2a2 [9340, 10624, 7996, 10632, 9672]
        agents     4dcb324b38aeb32f [62288, 80764, 153640, 62476, 100676]
        chat       faeffe9417ec83e5 [92, 12, 68, 4, 1416]
        first_prompts a810a76c00b7bc4f [184, 196, 48, 24, 76]
        lengths    9fa42e89ffd75b62 [2116, 768, 1816, 464, 1828]
        long_replies bd4b90d8e52d3809 [8368, 8156, 8324, 8104, 8324]
        unlike_replies 8d33bd049178a71f [728, 552, 624, 604, 624]
        long_reuse c3ed3a95f25bc983 [56160, 20568, 31892, 52500, 38184]
        flips      7e556894b77b0590 [12636, 12232, 12544, 12140, 12548]
        wide_tree  bc4c2c2fa5c6f69e [20437, 13123, 19056, 10425, 18979]
    "#]]
    .assert_eq(&out);
}

// A part of a mix draws exactly as it does alone: the choice among parts shifts nothing.
#[test]
fn a_mix_shifts_nothing() {
    let mixed = Mixed::new(vec![Box::new(Sessions::default()), Box::new(Tree::default())]);
    for ordinal in 0..50 {
        let key = ProgramKey { seed: 7, region: 2, client: 1, ordinal };
        let got = mixed.program(key);
        let alone = [Sessions::default().program(key), Tree::default().program(key)];
        assert!(alone.contains(&got), "program {ordinal}");
    }
}

// One draw never shifts another: more turns leave the earlier ones unchanged, and another client,
// region or ordinal gives another program.
#[test]
fn common_random_numbers() {
    let key = ProgramKey { seed: 7, region: 0, client: 0, ordinal: 0 };
    let short = Sessions { turns: 2, ..Sessions::default() }.program(key);
    let long = Sessions { turns: 9, ..Sessions::default() }.program(key);
    assert_eq!(short.nodes[..], long.nodes[..2]);
    let question = |key| Sessions::default().program(key).nodes[1].adds[0].id;
    let others = [
        ProgramKey { seed: 8, ..key },
        ProgramKey { region: 1, ..key },
        ProgramKey { client: 1, ..key },
        ProgramKey { ordinal: 1, ..key },
    ];
    for other in others {
        assert_ne!(question(key), question(other), "{other:?}");
    }
}

// A text has exactly the length asked for, is a prefix of a longer one of the same id, and needs no
// escape in JSON.
#[test]
fn texts() {
    let text = |id, bytes| {
        let mut out = String::new();
        write_text(&mut out, id, bytes);
        out
    };
    assert_eq!(text(1, 0), "");
    assert_eq!(text(1, 777).len(), 777);
    assert!(text(1, 2000).starts_with(&text(1, 777)));
    assert_ne!(text(1, 64), text(2, 64));
    assert!(text(1, 5000).bytes().all(|b| b.is_ascii_lowercase() || b == b' '));
}
