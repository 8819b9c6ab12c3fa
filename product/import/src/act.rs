//! Tables of another program's settings: for each name its conversion, or the reason why there is
//! none.

use super::draft::Draft;
use super::note::Found;

/// How a setting is treated. `F` is the type of a conversion.
#[derive(Clone, Copy)]
pub(super) enum Act<F> {
    /// It is read elsewhere.
    Elsewhere,
    /// Meridian does this itself, or does not need it.
    Needless,
    /// A conversion.
    Do(F),
    /// A note with the value: why, and the remedy.
    Say(&'static str, &'static str),
    /// A note without the value, which may be a secret.
    Hide(&'static str, &'static str),
    /// Access control, without its value.
    Guard(&'static str, &'static str),
}

impl<F: Copy> Act<F> {
    /// How the setting `name` is treated. The value of an unknown setting may be a secret.
    pub(super) fn of(name: &str, table: &[(&str, Act<F>)], needless: &[&str]) -> Act<F> {
        let known = table.iter().find(|(known, _)| *known == name).map(|(_, act)| *act);
        let needless = || needless.contains(&name).then_some(Act::Needless);
        known.or_else(needless).unwrap_or(Act::Hide(
            "the import does not know it",
            "look for a counterpart in docs/gateway.md",
        ))
    }

    /// Adds a setting to the draft; `convert` calls its conversion, if it has one.
    pub(super) fn apply(
        self,
        (name, value, place): (&str, &str, &str),
        draft: &mut Draft,
        convert: impl FnOnce(F, &Found, &mut Draft),
    ) {
        let hidden = || Found::hidden(name, place);
        match self {
            Act::Elsewhere => {}
            Act::Needless => draft.needless(name),
            Act::Do(conversion) => convert(conversion, &Found::new(name, value, place), draft),
            Act::Say(why, remedy) => draft.note(&Found::new(name, value, place), why, remedy),
            Act::Hide(why, remedy) => draft.note(&hidden(), why, remedy),
            Act::Guard(why, remedy) => draft.unguarded(&hidden(), why, remedy),
        }
    }
}
