//! Shapes: how the GPUs of an instance are spread over servers, up to equal servers.

use crate::pack::{Class, Shape};

/// With more shapes of a size than this, only even ones are considered.
const MANY: usize = 2000;

/// Every shape of `size` GPUs.
pub(crate) fn shapes(classes: &[(Class, Vec<u32>)], size: u32) -> Vec<Shape> {
    let mut all = Vec::new();
    if !spread(classes, size, false, &mut Vec::new(), &mut all) {
        all.clear();
        spread(classes, size, true, &mut Vec::new(), &mut all);
    }
    all
}

/// Adds the remaining GPUs to a shape, class by class; false once there are too many.
fn spread(
    classes: &[(Class, Vec<u32>)],
    left: u32,
    even: bool,
    shape: &mut Shape,
    all: &mut Vec<Shape>,
) -> bool {
    let Some(((class, _), rest)) = classes.split_first() else {
        if left == 0 && (!even || is_even(shape)) {
            all.push(shape.clone());
        }
        return even || all.len() <= MANY;
    };
    for part in 0..=left.min(class.servers * class.gpus) {
        let mut found = Vec::new();
        parts(part, class.gpus, class.servers, even, &mut Vec::new(), &mut found);
        for parts in found {
            shape.push(parts);
            let few = spread(rest, left - part, even, shape, all);
            shape.pop();
            if !few {
                return false;
            }
        }
    }
    true
}

/// Whether all servers contribute equally.
fn is_even(shape: &Shape) -> bool {
    let mut parts = shape.iter().flatten();
    parts.next().is_none_or(|first| parts.all(|part| part == first))
}

/// Every way of writing `left` as a sum of at most `servers` numbers up to `most`, descending; with
/// `even`, of equal numbers only.
fn parts(
    left: u32,
    most: u32,
    servers: u32,
    even: bool,
    so_far: &mut Vec<u8>,
    all: &mut Vec<Vec<u8>>,
) {
    if left == 0 {
        all.push(so_far.clone());
        return;
    }
    if servers == 0 || left > most * servers {
        return;
    }
    for part in (1..=left.min(most)).rev() {
        if even && so_far.first().is_some_and(|first| u32::from(*first) != part) {
            continue;
        }
        so_far.push(part as u8);
        parts(left - part, part, servers - 1, even, so_far, all);
        so_far.pop();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn class(servers: u32, gpus: u32) -> (Class, Vec<u32>) {
        (Class { servers, gpus }, (0..servers).collect())
    }

    // Four GPUs on two servers of four: 4, 3+1, 2+2; on two servers that differ, each way round.
    #[test]
    fn equal_servers_count_once() {
        let equal = shapes(&[class(2, 4)], 4);
        assert_eq!(equal, [vec![vec![4]], vec![vec![3, 1]], vec![vec![2, 2]]]);
        assert_eq!(shapes(&[class(1, 4), class(1, 4)], 4).len(), 5);
        assert!(shapes(&[class(1, 4)], 5).is_empty());
    }

    // If there are too many, the even ones remain: 8, 4+4, 2+2+2+2 and 1 on each of eight.
    #[test]
    fn too_many_shapes_are_thinned_to_even_ones() {
        let units: Vec<_> = (0..8).map(|_| class(1, 8)).collect();
        let all = shapes(&units, 8);
        assert!(all.iter().all(is_even));
        assert_eq!(all.len(), 8 + 28 + 70 + 1);
    }
}
