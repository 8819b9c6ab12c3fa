//! The recorded sequence: requests in the order in which they arrived and ended.

/// One event of the sequence.
pub(crate) enum Event {
    Arrives(Arrival),
    Ends(u64),
}

/// A request of the sequence.
pub(crate) struct Arrival {
    pub(crate) id: u64,
    pub(crate) session: u64,
    /// Number and length of each segment of the prompt.
    segments: Vec<(u64, usize)>,
}

impl Arrival {
    /// The prompt's text.
    pub(crate) fn prompt(&self) -> Vec<u8> {
        let mut out = Vec::new();
        for (segment, size) in &self.segments {
            write_text(&mut out, *segment, *size);
        }
        out
    }
}

/// The events of `sequence.txt`.
pub(crate) fn read(text: &str) -> Vec<Event> {
    text.lines().map(event).collect()
}

fn event(line: &str) -> Event {
    let mut words = line.split(' ');
    let kind = words.next();
    let mut number = || words.next().and_then(|w| w.parse().ok()).expect("a number");
    if kind == Some("E") {
        return Event::Ends(number());
    }
    let (id, session) = (number(), number());
    let segment = |word: &str| {
        let (segment, size) = word.split_once(':').expect("SEGMENT:BYTES");
        (segment.parse().expect("a number"), size.parse().expect("a number"))
    };
    Event::Arrives(Arrival { id, session, segments: words.map(segment).collect() })
}

/// The text of a segment, as the recorder's `sequence.py` makes it: SplitMix64, twelve letters a
/// draw.
fn write_text(out: &mut Vec<u8>, segment: u64, size: usize) {
    const LETTERS: &[u8; 32] = b"abcdefghijklmnopqrstuvwxyz012345";
    let end = out.len() + size;
    let mut state = segment;
    while out.len() < end {
        state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = state;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^= z >> 31;
        out.extend((0..12).map(|i| LETTERS[(z >> (5 * i) & 31) as usize]));
    }
    out.truncate(end);
}
