//! A simulated disk that loses power: unsynced writes are lost, or half lost.

use std::io;
use std::sync::{Arc, Mutex, MutexGuard};

use meridian_base::Rng;
use meridian_control::embedded::StorageBackend;

const SECTOR: usize = 512;

/// Shared with the store that uses it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Disk(Arc<Mutex<Inner>>);

#[derive(Debug, Default)]
struct Inner {
    live: Vec<u8>,
    synced: Vec<u8>,
    unsynced: Vec<Unsynced>,
    /// Number of writes and syncs until the power fails.
    fuse: Option<u64>,
}

#[derive(Debug)]
enum Unsynced {
    Write(usize, Vec<u8>),
    Length(usize),
}

impl Disk {
    pub(crate) fn holding(bytes: Vec<u8>) -> Disk {
        let inner = Inner { live: bytes.clone(), synced: bytes, ..Inner::default() };
        Disk(Arc::new(Mutex::new(inner)))
    }

    /// The power fails after this many writes and syncs.
    pub(crate) fn fuse(&self, after: u64) {
        self.lock().fuse = Some(after);
    }

    /// The contents while it has power.
    pub(crate) fn bytes(&self) -> Vec<u8> {
        self.lock().live.clone()
    }

    /// The contents after a power failure: all synced data, and for each sector written since, the
    /// old or the new version.
    pub(crate) fn after_loss(&self, rng: &mut Rng) -> Vec<u8> {
        let inner = self.lock();
        let mut left = inner.synced.clone();
        let kept = [0.0, 0.5, 0.9, 1.0][rng.below(4)];
        for one in &inner.unsynced {
            match one {
                Unsynced::Length(length) if rng.unit() < kept => left.resize(*length, 0),
                Unsynced::Length(_) => {}
                Unsynced::Write(at, bytes) => tear(&mut left, *at, bytes, kept, rng),
            }
        }
        left
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().expect("no test panics while it holds the disk")
    }

    fn powered(&self) -> io::Result<MutexGuard<'_, Inner>> {
        let mut inner = self.lock();
        match &mut inner.fuse {
            Some(0) => return Err(io::Error::other("no power")),
            Some(left) => *left -= 1,
            None => {}
        }
        Ok(inner)
    }
}

fn tear(left: &mut [u8], at: usize, bytes: &[u8], kept: f64, rng: &mut Rng) {
    let mut from = at;
    while from < at + bytes.len() {
        let to = (from / SECTOR * SECTOR + SECTOR).min(at + bytes.len());
        if rng.unit() < kept && to <= left.len() {
            left[from..to].copy_from_slice(&bytes[from - at..to - at]);
        }
        from = to;
    }
}

fn place(offset: u64, length: usize, of: usize) -> io::Result<usize> {
    let at = usize::try_from(offset).map_err(io::Error::other)?;
    match at.checked_add(length) {
        Some(end) if end <= of => Ok(at),
        _ => Err(io::Error::other("beyond the end of the disk")),
    }
}

impl StorageBackend for Disk {
    fn len(&self) -> io::Result<u64> {
        Ok(self.lock().live.len() as u64)
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let inner = self.lock();
        let at = place(offset, out.len(), inner.live.len())?;
        out.copy_from_slice(&inner.live[at..at + out.len()]);
        Ok(())
    }

    fn set_len(&self, length: u64) -> io::Result<()> {
        let mut inner = self.powered()?;
        let length = usize::try_from(length).map_err(io::Error::other)?;
        inner.live.resize(length, 0);
        inner.unsynced.push(Unsynced::Length(length));
        Ok(())
    }

    fn sync_data(&self) -> io::Result<()> {
        let mut inner = self.powered()?;
        inner.synced = inner.live.clone();
        inner.unsynced.clear();
        Ok(())
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        let mut inner = self.powered()?;
        let at = place(offset, data.len(), inner.live.len())?;
        inner.live[at..at + data.len()].copy_from_slice(data);
        inner.unsynced.push(Unsynced::Write(at, data.to_vec()));
        Ok(())
    }
}
