//! Makes fleets of ascending size agree.
//!
//! A larger fleet cannot do worse but by chance, so one that is overloaded settles all smaller ones.

use super::names::named_as;
use super::overload::Overload;
use super::rows::Row;

/// Makes the rows of one policy and arrangement, by ascending size, agree: a fleet keeps up and meets
/// the objective only if every larger one does. Returns a line for each fleet that met it by chance.
pub(super) fn settle(rows: &mut [Row]) -> Vec<String> {
    let mut by_chance = Vec::new();
    let (mut overloaded, mut missed) = (None, None);
    for row in rows.iter_mut().rev() {
        if row.overloaded.is_some() {
            overloaded = Some(row.fleet.clone());
        } else if let Some(larger) = &overloaded {
            let why = format!("it seems to keep up, but {larger} does not");
            row.overloaded = Some(Overload { demand: None, why });
        }
        if let (true, Some(larger)) = (row.meets, &missed) {
            let name = named_as(&row.policy, &row.arrangement);
            by_chance.push(format!(
                "{} under {name} meets the SLO and {larger} does not, so it does not count as enough.",
                row.fleet
            ));
            row.meets = false;
        } else if !row.meets {
            missed = Some(row.fleet.clone());
        }
    }
    by_chance.reverse();
    by_chance
}
