//! Texts of expressions: those that mean the same, and those with a mistake.

use meridian_routing::policy::{self, FIGURES, FUNCTIONS, Given, ParamError, Params, TextError};
use proptest::prelude::*;

fn mistake(text: &str) -> Option<TextError> {
    let spec = policy::find("expression").expect("registered");
    match Params::complete(spec, &[("score".to_owned(), Given::Word(text.to_owned()))]) {
        Ok(params) => {
            let _ = (spec.build)(&params);
            None
        }
        Err(errors) => match errors.as_slice() {
            [ParamError::Text("score", error)] => Some(error.clone()),
            other => panic!("{text}: {other:?}"),
        },
    }
}

// Each mistake is found at its character, with what is wrong.
#[test]
fn mistakes_have_a_place() {
    let long = format!("running{}", " + running".repeat(300));
    let deep = format!("{}running{}", "(".repeat(40), ")".repeat(40));
    let many: String = (0..100).map(|n| format!("running * {n} + ")).collect();
    for (text, character, message) in [
        ("", 1, "the text ends where a number, a figure or `(` should be"),
        ("running +", 10, "the text ends where a number, a figure or `(` should be"),
        ("(running", 9, "the text ends where `)` should be"),
        ("running)", 8, "`)` stands where an operator such as + or the end should be"),
        ("running 2", 9, "`2` stands where an operator"),
        ("2running", 1, "`2running` is not a number"),
        ("running\0", 8, "`\\0` stands"),
        ("running * 5ms", 11, "`5ms` is not a number; write it as 0.5 or 1e3"),
        ("running * 1.2.3", 11, "`1.2.3` is not a number"),
        ("running * 1e99", 11, "`1e99` is too large; use at most 3.4028235e38"),
        ("running ^ 2", 9, "or an operator should be; write `pow(a, b)`"),
        ("running = 2", 9, "or an operator should be; write `==`"),
        ("running && 2", 9, "or an operator should be; write `and`"),
        ("running + min", 11, "`min` is a function; write min(a, b, ...)"),
        ("floor running", 1, "`floor` is a function; write floor(a)"),
        ("running(2)", 1, "`running` is a figure; write it without arguments"),
        ("\u{e9} + running", 1, "`\u{e9}` stands where"),
        ("if(running < 2 < 3, 1, 0)", 16, "comparisons do not chain; join two of them with `and`"),
        ("runing", 1, "`runing` is unknown"),
        ("max_off(running)", 1, "`max_off` is unknown"),
        ("running + abs()", 11, "`abs` has 0 arguments; write abs(a)"),
        ("max(running)", 1, "`max` has 1 argument; write max(a, b, ...)"),
        ("if(running, 1)", 1, "`if` has 2 arguments; write if(condition, a, b)"),
        ("running - max_of(1 - min_of(running))", 11, "inside another one; use it outside of that"),
        ("queued + 1", 1, "no figure of a replica is in it"),
        ("max_of(running)", 1, "no figure of a replica is in it"),
        ("not and", 5, "`and` stands where a number"),
        (&*long, 2001, "has 3007 bytes; use at most 2000"),
        (&*deep, 33, "nested deeper than 32"),
        (&many[..many.len() - 3], 1, "more than 128 operations"),
    ] {
        let found = mistake(text).unwrap_or_else(|| panic!("{text} passes"));
        assert_eq!(found.character, character, "{text}: {found:?}");
        assert!(found.message.contains(message), "{text}: {found:?}");
    }
    let found = mistake("runing").unwrap();
    assert!(found.word == "runing" && found.known.contains(&"running"), "{found:?}");
}

// Every documented name and form is one.
#[test]
fn all_names_are_known() {
    for figure in FIGURES {
        assert_eq!(mistake(&format!("{} + running", figure.name)), None, "{}", figure.name);
    }
    for function in FUNCTIONS {
        let form = function.form.replace(", ...", "").replace("condition", "running > 1");
        let names = form.replace("(a", "(running").replace(", a", ", running");
        let call = names.replace(", b", ", kv_used");
        assert_eq!(mistake(&format!("{call} + running")), None, "{call}");
    }
}

proptest! {
    // No text panics, and a good one can be built.
    #[test]
    fn no_text_panics(words in prop::collection::vec(
        "(running|queued|max_of|min|if|not|and|or|[-+*/(),<>=! .0-9e]|\\PC){0,3}", 0..30)
    ) {
        let _ = mistake(&words.join(""));
    }
}
