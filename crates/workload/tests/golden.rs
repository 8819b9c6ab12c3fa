//! One seed, the same programs, on every platform and in every version: recorded results lean on
//! it. A changed snapshot means that every seed has changed its meaning.

use std::fmt::Write;

use expect_test::{Expect, expect};
use meridian_base::keyed;
use meridian_workload::{
    Chat, Generator, Mixed, Piece, ProgramKey, Sessions, Tree, Walk, write_text,
};

/// Bytes and hash of the first prompts of two programs, the replies being their node's number.
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

// A part of a mix draws exactly what it would draw alone: choosing among parts shifts nothing.
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

// One draw never shifts another: more turns leave the earlier ones as they were, and another
// client, region or ordinal gives another program.
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
