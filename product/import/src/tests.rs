//! Damaged files: an import gives a working configuration or an error, and shows no secret.

use meridian_config::Gateway;

use super::draft::Draft;
use super::source::Source;
use super::{FORMATS, Format};

/// The scenarios, whose inputs are files of the formats.
const SCENARIOS: [(&str, &str); 3] = [
    ("nginx", include_str!("../tests/scenarios/nginx")),
    ("litellm", include_str!("../tests/scenarios/litellm")),
    ("smg", include_str!("../tests/scenarios/smg")),
];

/// The text between `import ...` and `----`.
fn inputs(scenarios: &str) -> Vec<String> {
    let mut inputs = Vec::new();
    let mut open = false;
    for line in scenarios.lines() {
        match line {
            "----" => open = false,
            line if line.starts_with("import ") => {
                open = true;
                inputs.push(String::new());
            }
            line if open => {
                let input: &mut String = inputs.last_mut().expect("one is open");
                input.push_str(line);
                input.push('\n');
            }
            _ => {}
        }
    }
    inputs
}

/// A random generator with a seed: SplitMix64.
struct Random(u64);

impl Random {
    fn below(&mut self, n: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) % n.max(1) as u64) as usize
    }
}

/// Removes, doubles and exchanges lines, and cuts off the end.
fn damaged(input: &str, random: &mut Random) -> String {
    let mut lines: Vec<&str> = input.lines().collect();
    for _ in 0..=random.below(4) {
        let (a, b) = (random.below(lines.len()), random.below(lines.len()));
        match random.below(3) {
            0 if lines.len() > 1 => drop(lines.remove(a)),
            1 => lines.insert(a, lines[b]),
            _ => lines.swap(a, b),
        }
    }
    let mut text = lines.join("\n");
    if random.below(4) == 0 {
        let at = random.below(text.len());
        text.truncate((0..=at).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0));
    }
    text
}

fn import(format: &Format, text: &str) -> Result<(String, String), String> {
    let source = Source { name: "f".to_owned(), folder: None, text: text.to_owned() };
    let mut draft = Draft::default();
    let read = (format.read)(&source, &mut draft);
    let done = read.and_then(|()| draft.finish(format.name, "f"));
    done.map(|(yaml, notes)| (yaml, notes.join("\n"))).map_err(|error| format!("{error:#}"))
}

// 6,000 damaged files: each import gives a configuration that passes the gateway's check and reads
// back unchanged, or an error about the file. Neither shows a secret.
#[test]
fn damaged_files() {
    let mut random = Random(1);
    let mut worked = 0;
    for (name, scenarios) in SCENARIOS {
        let format = FORMATS.iter().find(|format| format.name == name).expect("is a format");
        let inputs = inputs(scenarios);
        assert!(inputs.len() >= 5, "{name} has inputs");
        for _ in 0..2000 {
            let text = damaged(&inputs[random.below(inputs.len())], &mut random);
            let said = match import(format, &text) {
                Ok((yaml, notes)) => {
                    let config = Gateway::read(&yaml).unwrap_or_else(|e| panic!("{e}: {yaml}"));
                    let printed = config.print().expect("prints");
                    assert_eq!(Gateway::read(&printed).expect("reads back"), config);
                    worked += 1;
                    yaml + &notes
                }
                Err(error) => {
                    let ours = "the converted file is not a valid configuration";
                    assert!(!error.contains(ours), "{error}\n{text}");
                    error
                }
            };
            assert!(!said.contains("s3cret"), "{said}\n{text}");
        }
    }
    assert!(worked > 1000, "{worked} of 6000 were files of the format still");
}
