//! Greedy connections, and counts of the bytes that arrive.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

use meridian_cards::queues::Class;

use crate::pair::Pair;

/// Connections that send as much as they can, until they are dropped.
pub(crate) struct Greedy {
    arrived: Vec<Arc<AtomicU64>>,
    /// A word for each arrival, so that a test can wait for bytes and not for time.
    words: Mutex<Receiver<()>>,
    ends: Vec<TcpStream>,
    threads: Vec<JoinHandle<()>>,
}

impl Greedy {
    /// One connection for each entry.
    pub(crate) fn start(pair: &Pair, classes: &[Option<Class>]) -> Greedy {
        let (word, words) = channel();
        let (mut ends, mut threads, mut arrived) = (Vec::new(), Vec::new(), Vec::new());
        for class in classes {
            let (sender, receiver) = pair.connect(*class);
            ends.extend([&sender, &receiver].map(|end| end.try_clone().expect("it is open")));
            let count = Arc::new(AtomicU64::new(0));
            arrived.push(Arc::clone(&count));
            let word = word.clone();
            threads.push(std::thread::spawn(move || send(sender)));
            threads.push(std::thread::spawn(move || receive(receiver, &count, &word)));
        }
        Greedy { arrived, words: Mutex::new(words), ends, threads }
    }

    /// The bytes that have arrived, by connection.
    pub(crate) fn bytes(&self) -> Vec<u64> {
        self.arrived.iter().map(|count| count.load(Ordering::Relaxed)).collect()
    }

    pub(crate) fn total(&self) -> u64 {
        self.bytes().iter().sum()
    }

    /// Waits until `more` bytes have arrived over all connections; returns them by connection.
    pub(crate) fn after(&self, more: u64) -> Vec<u64> {
        let before = self.bytes();
        let goal = before.iter().sum::<u64>() + more;
        let words = self.words.lock().expect("no thread panicked with it");
        while self.total() < goal {
            words.recv().expect("connections are open as long as they are counted");
        }
        self.bytes().iter().zip(before).map(|(now, before)| now - before).collect()
    }

    /// The same, as shares of all bytes.
    pub(crate) fn shares(&self, of: u64) -> Vec<f64> {
        let bytes = self.after(of);
        let all = bytes.iter().sum::<u64>() as f64;
        bytes.iter().map(|bytes| *bytes as f64 / all).collect()
    }
}

impl Drop for Greedy {
    fn drop(&mut self) {
        for end in &self.ends {
            // The other end may have closed it already.
            let _ = end.shutdown(Shutdown::Both);
        }
        for thread in self.threads.drain(..) {
            thread.join().expect("does not panic");
        }
    }
}

fn send(mut stream: TcpStream) {
    while stream.write_all(&[0; 65_536]).is_ok() {}
}

fn receive(mut stream: TcpStream, count: &AtomicU64, word: &Sender<()>) {
    let mut buffer = vec![0; 1 << 18];
    while let Ok(bytes @ 1..) = stream.read(&mut buffer) {
        count.fetch_add(bytes as u64, Ordering::Relaxed);
        // The test may have stopped waiting.
        let _ = word.send(());
    }
}
