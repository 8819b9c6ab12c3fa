//! Tables of another program's settings: for each name its conversion, or the reason why there is
//! none.
//!
//! Tables are texts, so that a row is a line. Names are separated by spaces; a note is a line
//! `NAMES: WHY; REMEDY`.

use super::draft::Draft;
use super::note::Found;
use super::value;

/// How a setting is converted. `F` is the type of a conversion that only one program has.
#[derive(Clone, Copy)]
pub(super) enum Act<F> {
    /// A number of seconds becomes a duration.
    Seconds(&'static str),
    /// A number, to which the second value is added.
    Count(&'static str, u64),
    /// The seconds that a circuit breaker stays open.
    Open,
    /// The largest body, in units of this many bytes.
    Body(u64),
    /// The name of a file.
    File(&'static str),
    Do(F),
}

/// The settings of a program.
pub(super) struct Table<F: 'static> {
    pub(super) acts: &'static [(&'static str, Act<F>)],
    /// Notes with the setting's value.
    pub(super) notes: &'static str,
    /// Notes without the value, which may be a secret.
    pub(super) hidden: &'static str,
    /// Access control, without its value.
    pub(super) guards: &'static str,
    /// Names of settings that Meridian does not need, or does itself.
    pub(super) needless: &'static str,
    /// Names of settings that are read elsewhere.
    pub(super) elsewhere: &'static str,
    /// Why any other setting is not converted, and the remedy. Its value may be a secret.
    pub(super) unknown: (&'static str, &'static str),
}

impl<F: Copy> Table<F> {
    /// Whether the setting `name` has a conversion.
    pub(super) fn converts(&self, name: &str) -> bool {
        self.acts.iter().any(|(names, _)| has(names, name))
    }

    /// Adds a setting to the draft; `convert` calls its conversion, if it has one of its own.
    pub(super) fn apply(
        &self,
        (name, value, place): (&str, &str, &str),
        draft: &mut Draft,
        convert: impl FnOnce(F, &Found, &mut Draft),
    ) {
        let (shown, hidden) = (Found::new(name, value, place), Found::hidden(name, place));
        if let Some((_, act)) = self.acts.iter().find(|(names, _)| has(names, name)) {
            match *act {
                Act::Seconds(path) => draft.span(path, value::seconds(value), &shown),
                Act::Count(path, more) => {
                    draft.count(path, value::whole(value).map(|n| n + more), &shown);
                }
                Act::Open => draft.breaker_open(value::seconds(value), &shown),
                Act::Body(unit) => {
                    draft.body(value::whole(value).and_then(|n| n.checked_mul(unit)), &shown);
                }
                Act::File(path) => draft.file(path, value, &shown),
                Act::Do(conversion) => convert(conversion, &shown, draft),
            }
        } else if let Some((why, remedy)) = find(self.notes, name) {
            draft.note(&shown, why, remedy);
        } else if let Some((why, remedy)) = find(self.hidden, name) {
            draft.note(&hidden, why, remedy);
        } else if let Some((why, remedy)) = find(self.guards, name) {
            draft.unguarded(&hidden, why, remedy);
        } else if has(self.needless, name) {
            draft.needless(name);
        } else if !has(self.elsewhere, name) {
            draft.note(&hidden, self.unknown.0, self.unknown.1);
        }
    }
}

fn has(names: &str, name: &str) -> bool {
    names.split_whitespace().any(|known| known == name)
}

/// The reason and the remedy for a name. The first lookup of an unknown name checks every line.
fn find(notes: &'static str, name: &str) -> Option<(&'static str, &'static str)> {
    notes.lines().find_map(|line| {
        let row =
            line.split_once(": ").and_then(|(names, note)| Some((names, note.split_once("; ")?)));
        let (names, note) = row.expect("a line has names, a reason and a remedy");
        has(names, name).then_some(note)
    })
}
