//! Numbered rows, for events and flows.
//!
//! The last row to become free is the first to be used again, so that the numbers stay small and
//! are the same on every machine.

/// Rows of type `T`.
#[derive(Debug)]
pub(crate) struct Rows<T> {
    rows: Vec<Option<T>>,
    free: Vec<u32>,
}

impl<T> Default for Rows<T> {
    fn default() -> Rows<T> {
        Rows { rows: Vec::new(), free: Vec::new() }
    }
}

impl<T> Rows<T> {
    /// Enters a value, and returns the number of its row.
    pub(crate) fn enter(&mut self, value: T) -> u32 {
        let row = self.free.pop().unwrap_or_else(|| {
            self.rows.push(None);
            self.rows.len() as u32 - 1
        });
        let free = self.rows[row as usize].replace(value);
        assert!(free.is_none(), "row {row} is free, and has a value");
        row
    }

    /// Frees a row, and returns its value.
    pub(crate) fn take(&mut self, row: u32) -> Option<T> {
        let value = self.rows[row as usize].take()?;
        self.free.push(row);
        Some(value)
    }

    pub(crate) fn get(&self, row: u32) -> Option<&T> {
        self.rows.get(row as usize)?.as_ref()
    }

    pub(crate) fn get_mut(&mut self, row: u32) -> Option<&mut T> {
        self.rows.get_mut(row as usize)?.as_mut()
    }

    /// The rows in use, by number.
    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = (u32, &mut T)> {
        (0..).zip(&mut self.rows).filter_map(|(row, value)| Some((row, value.as_mut()?)))
    }
}
