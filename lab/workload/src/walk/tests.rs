use super::*;
use crate::{Generator, ProgramKey, Sessions, Tree};

const KEY: ProgramKey = ProgramKey { seed: 1, region: 0, client: 0, ordinal: 0 };

fn roles(walk: &Walk<&str>, node: usize) -> String {
    walk.prompt(node)
        .iter()
        .map(|p| match p {
            Piece::Text(s) if s.role == Role::System => 'S',
            Piece::Text(_) => 'u',
            Piece::Reply(_) => 'a',
        })
        .collect()
}

// A conversation goes one turn at a time, and each prompt is the previous one plus the reply and a
// new question.
#[test]
fn a_path_is_walked_turn_by_turn() {
    let sessions = Sessions { turns: 3, ..Sessions::default() };
    let mut walk = Walk::new(sessions.program(KEY));
    let mut seen = Vec::new();
    while let Some(node) = walk.take() {
        assert_eq!(walk.take(), None, "one turn at a time");
        seen.push(roles(&walk, node));
        walk.answered(node, "reply");
    }
    assert_eq!(seen, ["Su", "Suau", "Suauau"]);
    assert!(walk.is_over() && walk.lost() == 0);
}

// A level of a tree is sent at once, and the next one only when the whole level has ended.
#[test]
fn a_level_waits_for_the_level_above() {
    let mut walk = Walk::new(Tree { branch: 2, depth: 3, ..Tree::default() }.program(KEY));
    let root = walk.take().expect("a root");
    assert_eq!(walk.take(), None);
    walk.answered(root, "root");
    let (a, b) = (walk.take().expect("left"), walk.take().expect("right"));
    walk.answered(a, "left");
    assert_eq!(walk.take(), None, "the level is not over");
    assert!(!walk.is_over());
    walk.answered(b, "right");
    let leaf = walk.take().expect("a leaf");
    assert_eq!(roles(&walk, leaf).matches('a').count(), 2);
}

// A failed node loses its subtree and nothing else.
#[test]
fn a_failure_loses_what_is_below_it() {
    let mut walk = Walk::new(Tree { branch: 2, depth: 4, ..Tree::default() }.program(KEY));
    let root = walk.take().expect("a root");
    walk.answered(root, "");
    let (a, b) = (walk.take().expect("left"), walk.take().expect("right"));
    walk.failed(a);
    walk.answered(b, "");
    let mut more = 0;
    while let Some(node) = walk.take() {
        walk.answered(node, "");
        more += 1;
    }
    assert_eq!((more, walk.lost()), (6, 6));
    assert!(walk.is_over());

    let mut walk = Walk::<&str>::new(Sessions::default().program(KEY));
    let first = walk.take().expect("a turn");
    walk.failed(first);
    assert!(walk.is_over());
    assert_eq!(walk.lost(), 7);
}
