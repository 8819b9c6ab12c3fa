//! The least that the fullest link can carry: how to split each group's bytes over its ways, exactly.
//!
//! A linear program, solved by the simplex method with Bland's rule: minimise t, where each group's
//! shares add up to one and no link carries more than t of what it can. Splitting is what a scheduler
//! of many operations may do at best, so no scheduler's fullest link is emptier.

/// For each group and each of its ways, what the group's whole demand puts on links, as a share of
/// what each can carry.
pub(crate) type Demand = Vec<Vec<Vec<(u32, f64)>>>;

/// The least utilisation of the fullest link.
pub(crate) fn least(demand: &Demand) -> f64 {
    let mut links: Vec<u32> = demand.iter().flatten().flatten().map(|(link, _)| *link).collect();
    links.sort_unstable();
    links.dedup();
    let ways: usize = demand.iter().map(Vec::len).sum();
    let (t, rows) = (ways, links.len() + demand.len());
    let columns = ways + 1 + links.len() + 1;
    let mut table = vec![vec![0.0; columns]; rows];
    let mut basis = vec![0; rows];
    let mut way = 0;
    for (group, of) in demand.iter().enumerate() {
        let row = links.len() + group;
        for (nth, loads) in of.iter().enumerate() {
            for (link, share) in loads {
                let at = links.binary_search(link).expect("all links were collected");
                table[at][way + nth] += share;
            }
            table[row][way + nth] = 1.0;
        }
        (table[row][columns - 1], basis[row]) = (1.0, way);
        way += of.len();
    }
    for (at, row) in table.iter_mut().take(links.len()).enumerate() {
        (row[t], row[ways + 1 + at], basis[at]) = (-1.0, 1.0, ways + 1 + at);
    }
    // Each group's first way is in the basis: take it out of the links' rows.
    for row in links.len()..rows {
        pivot(&mut table, row, basis[row]);
    }
    // t as large as the fullest link makes every row feasible.
    let last = columns - 1;
    let worst = (0..links.len()).min_by(|a, b| table[*a][last].total_cmp(&table[*b][last]));
    let worst = worst.expect("there are links");
    pivot(&mut table, worst, t);
    basis[worst] = t;
    simplex(&mut table, &mut basis, t);
    let row = basis.iter().position(|column| *column == t).expect("t is above 0");
    table[row][last]
}

/// Brings `t` down until no column can.
fn simplex(table: &mut [Vec<f64>], basis: &mut [usize], t: usize) {
    let last = table[0].len() - 1;
    while let Some(row) = basis.iter().position(|column| *column == t) {
        // t = rhs - sum of the row's other columns: any with a positive entry brings it down.
        let entering = (0..last).find(|at| !basis.contains(at) && table[row][*at] > 1e-9);
        let Some(column) = entering else { return };
        let ratio = |at: usize| table[at][last] / table[at][column];
        let leaving = (0..table.len())
            .filter(|at| table[*at][column] > 1e-9)
            .min_by(|a, b| ratio(*a).total_cmp(&ratio(*b)).then(basis[*a].cmp(&basis[*b])));
        let leaving = leaving.expect("t's own row has a positive entry");
        pivot(table, leaving, column);
        basis[leaving] = column;
    }
}

fn pivot(table: &mut [Vec<f64>], row: usize, column: usize) {
    let by = table[row][column];
    table[row].iter_mut().for_each(|entry| *entry /= by);
    let own = table[row].clone();
    for (at, other) in table.iter_mut().enumerate() {
        let factor = other[column];
        if at != row && factor != 0.0 {
            other.iter_mut().zip(&own).for_each(|(entry, own)| *entry -= factor * own);
        }
    }
}
