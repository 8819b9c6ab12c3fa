//! Text from a number: common English words in an order determined by an id.
//!
//! It uses words instead of random letters so that a tokenizer splits them like real text (here a
//! little over one token a word). The text has no meaning and needs no escaping in JSON.

use meridian_base::Rng;

/// Appends `bytes` bytes of the text of `id` to `out`. A shorter text of the same id is a prefix of
/// a longer one.
pub fn write_text(out: &mut String, id: u64, bytes: u32) {
    let end = out.len() + bytes as usize;
    out.reserve(bytes as usize + 16);
    let mut rng = Rng::new(id);
    while out.len() < end {
        let mut bits = rng.next_u64();
        // Eight words from one draw: the list has 256.
        for _ in 0..8 {
            out.push_str(WORDS[(bits & 0xFF) as usize]);
            out.push(' ');
            bits >>= 8;
        }
    }
    out.truncate(end);
}

/// 256 common words.
#[rustfmt::skip]
const WORDS: [&str; 256] = [
    "the", "of", "and", "to", "in", "is", "it", "you", "that", "he", "was", "for", "on", "are",
    "with", "as", "his", "they", "be", "at", "one", "have", "this", "from", "or", "had", "by",
    "hot", "but", "some", "what", "there", "we", "can", "out", "other", "were", "all", "your",
    "when", "up", "use", "word", "how", "said", "an", "each", "she", "which", "do", "their",
    "time", "if", "will", "way", "about", "many", "then", "them", "would", "write", "like", "so",
    "these", "her", "long", "make", "thing", "see", "him", "two", "has", "look", "more", "day",
    "could", "go", "come", "did", "my", "sound", "no", "most", "number", "who", "over", "know",
    "water", "than", "call", "first", "people", "may", "down", "side", "been", "now", "find",
    "any", "new", "work", "part", "take", "get", "place", "made", "live", "where", "after",
    "back", "little", "only", "round", "man", "year", "came", "show", "every", "good", "me",
    "give", "our", "under", "name", "very", "through", "just", "form", "much", "great", "think",
    "say", "help", "low", "line", "before", "turn", "cause", "same", "mean", "differ", "move",
    "right", "boy", "old", "too", "does", "tell", "sentence", "set", "three", "want", "air",
    "well", "also", "play", "small", "end", "put", "home", "read", "hand", "port", "large",
    "spell", "add", "even", "land", "here", "must", "big", "high", "such", "follow", "act", "why",
    "ask", "men", "change", "went", "light", "kind", "off", "need", "house", "picture", "try",
    "us", "again", "animal", "point", "mother", "world", "near", "build", "self", "earth",
    "father", "head", "stand", "own", "page", "should", "country", "found", "answer", "school",
    "grow", "study", "still", "learn", "plant", "cover", "food", "sun", "four", "thought", "let",
    "keep", "eye", "never", "last", "door", "between", "city", "tree", "cross", "since", "hard",
    "start", "might", "story", "saw", "far", "sea", "draw", "left", "late", "run", "while",
    "press", "close", "night", "real", "life", "few", "stop", "open", "seem", "together", "next",
    "white", "children", "begin", "got", "walk",
];
